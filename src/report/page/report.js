// Puts the page together.
function controls(view) {
  const ranks = document.getElementById('ranks');
  const counts = [...new Set([1, 2, 4, data.ranks])].filter(count => count <= data.ranks).sort((a, b) => a - b);
  const buttons = counts.map(count => make('button', {text: count === data.ranks && count > 1 ? 'all' : count, onclick: () => {
    view.shownRanks = count;
    view.changed();
    mark();
  }}));
  const mark = () => buttons.forEach((button, i) => button.setAttribute('aria-pressed', counts[i] === view.shownRanks));
  if (counts.length > 1) ranks.append('ranks', ...buttons);
  mark();
  const lanes = make('button', {text: 'Open lanes', onclick: () => {
    const wasOpen = view.open.size > 0;
    view.open.clear();
    if (!wasOpen) {
      for (const band of view.bands) for (let rank = 0; rank < view.shownRanks; ++rank) view.open.add(`${band.run.number} ${band.label} ${rank}`);
    }
    view.changed();
    lanes.textContent = wasOpen ? 'Open lanes' : 'Close lanes';
  }});
  const heights = [2, 4, 8, 14];
  const taller = by => () => {
    const at = heights.indexOf(view.laneHeight) + by;
    view.laneHeight = heights[Math.max(0, Math.min(heights.length - 1, at))];
    view.changed();
  };
  ranks.append(lanes, make('button', {text: 'Lower', title: 'Lower lanes', onclick: taller(-1)}),
    make('button', {text: 'Taller', title: 'Taller lanes', onclick: taller(1)}));
  document.getElementById('zoom').append(make('button', {text: '+', title: 'Zoom in', onclick: () => view.zoomBy(0.6)}),
    make('button', {text: '−', title: 'Zoom out', onclick: () => view.zoomBy(1.7)}),
    make('button', {text: 'All', title: 'Show all', onclick: () => view.zoomTo(0, view.end)}));
  document.getElementById('show-path').addEventListener('change', event => {
    view.showPath = event.target.checked;
    view.changed();
  });
  const legend = document.getElementById('legend');
  for (const [colour, text] of [['gemm', 'tile'], ['other', 'sum, element by element'], ['copy', 'copy'],
    ['collective', 'collective'], ['wait', 'wait'], ['link', 'link sends'], ['exposed', 'no tile']]) {
    const swatch = make('i');
    swatch.style.background = `var(--${colour})`;
    legend.append(make('span', {}, swatch, text));
  }
}

async function main() {
  const state = document.getElementById('state');
  if (typeof DecompressionStream === 'undefined') {
    throw new Error('this browser cannot unpack the report: take Chrome 103, Firefox 113, Safari 16.4 or newer');
  }
  document.getElementById('machine').textContent =
    `${data.machine.name}: ${data.machine.description} · stretto ${data.stretto}`;
  for (const [number, run] of data.runs.entries()) await unpackRun(run, number);
  document.querySelector('main').hidden = false;
  state.remove();
  let view = null;
  const plan = new PlanView((run, line) => view.reveal(run, line));
  view = new TimelineView((run, line) => plan.show(run, line), (run, line) => plan.lineText(run, line));
  themes(() => view.draw());
  controls(view);
  showSummary(run => view.showBand(run));
  showRoofline();
  showVerdicts((run, line) => { plan.show(run, line); view.reveal(run, line); });
  showWeighed();
  const goToAnchor = async () => {
    const [, run, line] = location.hash.match(/^#(\d+):(\d+)$/) ?? [];
    if (!data.runs[run]) return false;
    await plan.show(data.runs[run], +line, true);
    view.reveal(data.runs[run], +line);
    return true;
  };
  addEventListener('hashchange', goToAnchor);
  if (!await goToAnchor() && data.runs.length > 0) await plan.show(data.runs[0], 0, true);
  // What is pointed at says its line, too.
  setTimeout(async () => { for (const run of data.runs) await plan.textOf(run); }, 300);
  return {view, plan};
}

// For those who look into the page by its console.
window.strettoReport = main().catch(error => {
  const state = document.getElementById('state') ?? document.body;
  state.textContent = `The report cannot be shown: ${error.message}`;
  throw error;
});
