// The table of schedules, the roofline, the checker's verdicts, and what `auto` weighed.
function showSummary(pick) {
  const runs = data.runs, measured = runs.some(run => run.measured_us !== undefined);
  const longest = Math.max(...runs.map(run => Math.max(run.timelines[0].total / 1e3, run.measured_us ?? 0)));
  const fastest = Math.min(...runs.map(run => run.timelines[0].total));
  const head = make('tr');
  const units = {predicted: 'µs', measured: 'µs', 'GEMM alone': 'µs', exposed: 'µs', hidden: '%',
    'speed-up': 'x', efficiency: '%'};
  for (const name of ['schedule', 'proved', 'predicted', measured && 'measured', 'GEMM alone', 'exposed', 'hidden',
    'speed-up', 'efficiency', '']) {
    if (name === false) continue;
    const cell = make('th', {class: name === 'proved' || name === '' ? 'left' : undefined, text: name});
    if (units[name]) cell.append(make('br'), make('small', {text: units[name]}));
    if (name === '') cell.append('GEMM alone, then exposed; the line is the floor');
    head.append(cell);
  }
  const body = make('tbody');
  for (const run of runs) {
    const total = run.timelines[0].total / 1e3, exposed = total - run.gemm_us;
    const hidden = run.communication_us > 0 ? Math.min(1, Math.max(0, 1 - run.exposed_us / run.communication_us)) : null;
    const row = make('tr', {class: 'pick', title: run.schedule, onclick: () => pick(run)});
    const cell = (text, kind) => row.append(make('td', {text, class: kind}));
    cell(run.name, total * 1e3 === fastest ? 'best' : undefined);
    row.append(make('td', {class: 'left ' + (run.check.clean ? 'good' : 'bad'),
      text: run.check.clean ? 'yes' : `${run.check.count}${run.check.truncated ? '+' : ''} problems`}));
    cell(total.toFixed(1), total * 1e3 === fastest ? 'best' : undefined);
    if (measured) cell(run.measured_us?.toFixed(1) ?? '–');
    cell(run.gemm_us.toFixed(1));
    cell(run.exposed_us.toFixed(1));
    cell(hidden === null ? '–' : (100 * hidden).toFixed(0));
    cell(data.sequential_us ? (data.sequential_us / total).toFixed(2) : '–');
    cell((100 * run.efficiency).toFixed(0));
    const percent = us => `${Math.max(0, 100 * us / longest)}%`;
    const bars = make('svg', {role: 'img'},
      make('rect', {x: 0, y: 2, width: percent(Math.min(run.gemm_us, total)), height: 12, fill: 'var(--gemm)'}),
      make('rect', {x: percent(run.gemm_us), y: 2, width: percent(exposed), height: 12, fill: 'var(--exposed)'}),
      make('line', {x1: percent(run.floor_us), x2: percent(run.floor_us), y1: -1, y2: 17, stroke: 'var(--text)',
        'stroke-width': 1.5}));
    if (run.measured_us) {
      bars.append(make('circle', {cx: percent(run.measured_us), cy: 8, r: 4, fill: 'var(--ground)',
        stroke: 'var(--text)', 'stroke-width': 1.5}));
    }
    row.append(make('td', {class: 'bars'}, bars));
    body.append(row);
  }
  for (const {name, reasons} of data.refused ?? []) {
    body.append(make('tr', {}, make('td', {text: name}),
      make('td', {class: 'left note', colspan: 9, text: 'cannot serve this: ' + reasons.join('; ')})));
  }
  document.getElementById('summary').append(make('thead', {}, head), body);
  const notes = ['Predicted by simulation, until the last rank is done (docs/simulation.md). Exposed: predicted minus ' +
    'the GEMM of the slowest rank alone on all SMs. Hidden: the share of the communication that runs behind the GEMM. ' +
    'Efficiency: floor over predicted.'];
  for (const run of runs) {
    if (run.reason) notes.push(`${run.name}: ${run.reason}.`);
    if (run.measured_source) notes.push(`Measured (circle), ${run.name}: ${run.measured_source}.`);
  }
  const note = document.getElementById('summary-note');
  for (const text of notes) note.append(make('div', {text}));
}

// Products a second against products a byte of the link, both logarithmic.
function showRoofline() {
  const peak = data.machine.tflops * 1e12, rate = data.machine.link_gb_per_s * 1e9;
  const place = document.getElementById('roofline'), note = document.getElementById('roofline-note');
  if (!(data.link_bytes > 0 && rate > 0 && peak > 0)) {
    note.textContent = 'One rank sends nothing: the GEMM alone is the floor.';
    return;
  }
  const at = data.flops_per_rank / data.link_bytes, ridge = peak / rate;
  const reached = data.runs.map(run => ({name: run.name, flops: data.flops_per_rank / (run.timelines[0].total / 1e9)}));
  const low = Math.min(at, ridge) / 4, high = Math.max(at, ridge) * 6;
  const top = peak * 1.7, bottom = Math.min(peak / 12, ...reached.map(one => one.flops / 1.6));
  const box = {left: 58, right: 470, top: 14, bottom: 262};
  const x = value => box.left + Math.log(value / low) / Math.log(high / low) * (box.right - box.left);
  const y = value => box.bottom - Math.log(value / bottom) / Math.log(top / bottom) * (box.bottom - box.top);
  const svg = make('svg', {viewBox: '0 0 620 300', role: 'img'});
  const line = (x1, y1, x2, y2, more) => svg.append(make('line', {x1, y1, x2, y2, ...more}));
  const text = (x, y, words, more = {}) => svg.append(make('text', {x, y, text: words, ...more}));
  for (let power = Math.ceil(Math.log10(low)); 10 ** power <= high; ++power) {
    line(x(10 ** power), box.top, x(10 ** power), box.bottom, {stroke: 'var(--line)'});
    text(x(10 ** power), box.bottom + 16, (10 ** power).toLocaleString('en'), {class: 'faint', 'text-anchor': 'middle'});
  }
  for (const tera of [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000]) {
    if (tera * 1e12 < bottom || tera * 1e12 > top) continue;
    line(box.left, y(tera * 1e12), box.right, y(tera * 1e12), {stroke: 'var(--line)'});
    text(box.left - 6, y(tera * 1e12) + 4, tera, {class: 'faint', 'text-anchor': 'end'});
  }
  const start = Math.max(low, bottom / rate);
  svg.append(make('polyline', {points: `${x(start)},${y(start * rate)} ${x(ridge)},${y(peak)} ${x(high)},${y(peak)}`,
    fill: 'none', stroke: 'var(--text)', 'stroke-width': 2}));
  line(x(at), box.top, x(at), box.bottom, {stroke: 'var(--faint)', 'stroke-dasharray': '3 4'});
  // All schedules compute the same, so their points are above each other; their names make room.
  reached.sort((a, b) => b.flops - a.flops);
  let above = -Infinity;
  const places = reached.map(one => above = Math.max(above + 15, y(one.flops) + 4));
  const over = places.length ? Math.max(0, places[places.length - 1] - box.bottom) : 0;
  reached.forEach((one, i) => {
    const label = places[i] - over, point = y(one.flops);
    line(x(at) + 6, point, box.right + 6, label - 4, {stroke: 'var(--line)'});
    svg.append(make('circle', {cx: x(at), cy: point, r: 4.5, fill: 'var(--gemm)', stroke: 'var(--ground)'}));
    text(box.right + 10, label, `${one.name}  ${(one.flops / 1e12).toFixed(0)}`);
  });
  text(box.left - 6, box.top + 2, 'TFLOP/s', {class: 'faint', 'text-anchor': 'end'});
  text((box.left + box.right) / 2, box.bottom + 34, 'floating-point operations a byte sent', {class: 'faint', 'text-anchor': 'middle'});
  place.append(svg);
  note.textContent = `A rank computes ${(data.flops_per_rank / 1e12).toPrecision(3)} TFLOP and sends at least ` +
    `${bytesText(data.link_bytes)}. The roof: ${data.machine.tflops.toFixed(0)} TFLOP/s on full tiles, ` +
    `${data.machine.link_gb_per_s.toFixed(0)} GB/s a direction.`;
}

function showVerdicts(goTo) {
  const place = document.getElementById('verdicts');
  for (const run of data.runs) {
    const {check} = run;
    const line = make('p', {}, make('b', {text: run.name}), ': ');
    line.append(make('span', {class: check.clean ? 'good' : 'bad',
      text: check.clean ? 'free of races and deadlocks' : `${check.count}${check.truncated ? ' or more' : ''} problems`}));
    const count = number => number.toLocaleString('en');
    line.append(`, ${count(check.tasks)} tasks, ${count(check.waits)} waits, ${count(check.notifies)} notifies, ` +
      `${count(check.pairs_proved)} pairs of accesses proved ordered`);
    place.append(line);
    for (const problem of check.problems) {
      const box = make('div', {class: 'problem'}, make('b', {text: problem.kind}), ' ' + problem.message);
      if (problem.hint) box.append(make('div', {class: 'hint', text: problem.hint}));
      for (const which of ['line', 'other']) {
        if (problem[which] === undefined) continue;
        box.append(make('a', {href: `#${run.number}:${problem[which]}`, text: `line ${problem[which]}`,
          onclick: event => { event.preventDefault(); goTo(run, problem[which]); }}), ' ');
      }
      place.append(box);
    }
  }
}

function showWeighed() {
  const weighed = data.weighed ?? [];
  if (weighed.length === 0) return;
  document.getElementById('weighed-section').hidden = false;
  const products = [...new Set(weighed.map(one => one.product))];
  for (const product of products) {
    const rows = weighed.filter(one => one.product === product), longest = Math.max(...rows.map(one => one.us));
    if (product) document.getElementById('weighed').append(make('p', {}, make('b', {text: product})));
    const body = make('tbody');
    const shown = Math.min(rows.length, 15);
    rows.slice(0, shown).forEach(one => {
      const bar = make('svg', {}, make('rect', {x: 0, y: 2, height: 12, width: `${100 * one.us / longest}%`,
        fill: one.chosen ? 'var(--gemm)' : 'var(--wait)'}));
      body.append(make('tr', {}, make('td', {class: one.chosen ? 'best' : undefined, text: one.schedule}),
        make('td', {text: one.us.toFixed(1)}), make('td', {class: 'left', text: one.measured ? 'measured' : 'expected'}),
        make('td', {class: 'left best', text: one.chosen ? 'taken' : ''}), make('td', {class: 'bars'}, bar)));
    });
    const head = make('tr', {}, ...['schedule', 'µs', '', '', ''].map(text => make('th', {text})));
    document.getElementById('weighed').append(make('div', {class: 'scrolls'},
      make('table', {}, make('thead', {}, head), body)));
    if (shown < rows.length) {
      document.getElementById('weighed').append(make('p', {class: 'note', text: `and ${rows.length - shown} slower ones`}));
    }
  }
}
