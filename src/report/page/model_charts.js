// The charts of a model's page: a layer's time by part, and gains by rows.
const kPartColours = ['gemm', 'other', 'copy', 'collective', 'link', 'network'];

function colourOfPart(name) {
  const names = [...new Set(data.results.flatMap(layer => layer.linears.map(part => part.linear)))];
  return `var(--${kPartColours[names.indexOf(name) % kPartColours.length]})`;
}

const isServed = part => part.refused.length === 0;
const timeText = us => us < 1e4 ? `${us.toFixed(1)} µs` : `${(us / 1e3).toFixed(2)} ms`;
const rowsText = rows => rows.toLocaleString('en');

// The box beside the pointer says `lines` while the pointer is on an element; the first is bold.
function explain(element, lines) {
  const tip = document.getElementById('tip');
  element.addEventListener('mousemove', event => {
    tip.hidden = false;
    tip.replaceChildren(make('b', {text: lines[0]}), ...lines.slice(1).map(text => make('div', {text})));
    const {width, height} = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - width - 8))}px`;
    tip.style.top = `${Math.max(4, Math.min(event.clientY + 14, innerHeight - height - 8))}px`;
  });
  element.addEventListener('mouseleave', () => { tip.hidden = true; });
  return element;
}

function linesOf(part, rows) {
  const {m, n, k, t, h, f, experts} = part.operator;
  const sizes = m !== undefined ? `${part.operator.kind} ${m} x ${n} x ${k}`
    : `${part.operator.kind} t=${t} h=${h} f=${f} experts=${experts} k=${k}`;
  return [`${part.linear}, ${rowsText(rows)} rows`, sizes, `library: ${timeText(part.library_us)} (${part.library})`,
    `Stretto: ${timeText(part.stretto_us)}, ${part.gain.toFixed(2)}x, ${part.from}` +
      (part.runs_on_gpus ? '' : ', no GPU kernels yet'),
    `schedule ${part.schedule}`, part.reason];
}

// Two bars for each number of rows, as shares of the library's time.
function drawParts(place) {
  const layers = data.results.filter(layer => layer.linears.some(isServed));
  const left = 82, width = 620, wide = width - left - 86, high = 17, step = 62;
  const svg = make('svg', {viewBox: `0 0 ${width} ${layers.length * step + 26}`, role: 'img'});
  layers.forEach((layer, i) => {
    const parts = layer.linears.filter(isServed), top = i * step + 8;
    const library = parts.reduce((sum, part) => sum + part.library_us, 0);
    svg.append(make('text', {x: 0, y: top + 22, text: `${rowsText(layer.rows)} rows`, 'font-weight': 600}));
    for (const [line, which] of ['library_us', 'stretto_us'].entries()) {
      let x = left;
      for (const part of parts) {
        const took = part[which] / library * wide;
        svg.append(explain(make('rect', {x, y: top + line * (high + 4), width: Math.max(0.5, took - 1), height: high,
          fill: colourOfPart(part.linear), opacity: which === 'library_us' ? 0.5 : 1}), linesOf(part, layer.rows)));
        if (took > 56) {
          svg.append(make('text', {x: x + 5, y: top + line * (high + 4) + 13, text: part.linear, class: which === 'library_us' ? 'on-pale' : 'on-bar',
            'pointer-events': 'none'}));
        }
        x += took;
      }
      const sum = parts.reduce((all, part) => all + part[which], 0);
      svg.append(make('text', {x: x + 5, y: top + line * (high + 4) + 13, text: timeText(sum)}));
    }
  });
  svg.append(make('text', {x: left, y: layers.length * step + 18, class: 'faint',
    text: 'pale: the library; full: Stretto. Each row count has its own scale.'}));
  place.append(svg);
}

// From the least to the most gain that is shown, in round steps, and 1 with it.
function scaleOf(gains) {
  const low = Math.min(1, ...gains), high = Math.max(1.1, ...gains);
  const step = [0.05, 0.1, 0.2, 0.5, 1, 2].find(size => (high - low) / size <= 6) ?? 5;
  const ticks = [];
  for (let at = Math.floor(low / step + 1e-9); at <= Math.ceil(high / step - 1e-9); ++at) ticks.push(at * step);
  return ticks;
}

function drawGains(place) {
  const layers = data.results, names = [...new Set(layers.flatMap(layer => layer.linears.map(part => part.linear)))];
  const lines = names.map(name => ({name, colour: colourOfPart(name), wide: 1.5, points: layers.flatMap(layer => {
    const part = layer.linears.find(one => one.linear === name && isServed(one));
    return part ? [{rows: layer.rows, gain: part.gain, isMeasured: part.from === 'measured', says: linesOf(part, layer.rows)}] : [];
  })}));
  lines.push({name: 'layer', colour: 'var(--text)', wide: 2.5, points: layers.flatMap(layer => layer.gain === undefined ? []
    : [{rows: layer.rows, gain: layer.gain, isMeasured: layer.linears.every(part => part.from === 'measured'),
      says: [`layer, ${rowsText(layer.rows)} rows`, `library: ${timeText(layer.library_us)}`,
        `Stretto: ${timeText(layer.stretto_us)}, ${layer.gain.toFixed(2)}x`]}])});
  const points = lines.flatMap(line => line.points);
  const ticks = scaleOf(points.map(point => point.gain)), low = ticks[0], high = ticks[ticks.length - 1];
  const counts = layers.map(layer => layer.rows), least = Math.min(...counts), most = Math.max(...counts);
  const box = {left: 46, right: 500, top: 12, bottom: 250};
  const x = rows => least === most ? (box.left + box.right) / 2
    : box.left + 14 + Math.log(rows / least) / Math.log(most / least) * (box.right - box.left - 28);
  const y = gain => box.bottom - (gain - low) / (high - low) * (box.bottom - box.top);
  const svg = make('svg', {viewBox: '0 0 620 292', role: 'img'});
  for (const tick of ticks) {
    svg.append(make('line', {x1: box.left, x2: box.right, y1: y(tick), y2: y(tick),
      stroke: Math.abs(tick - 1) < 1e-9 ? 'var(--faint)' : 'var(--line)'}));
    svg.append(make('text', {x: box.left - 6, y: y(tick) + 4, text: `${+tick.toFixed(2)}x`, class: 'faint', 'text-anchor': 'end'}));
  }
  let last = -Infinity;
  for (const rows of [...new Set(counts)].sort((a, b) => a - b)) {
    if (x(rows) - last < 44) continue;
    last = x(rows);
    svg.append(make('text', {x: last, y: box.bottom + 17, text: rowsText(rows), class: 'faint', 'text-anchor': 'middle'}));
  }
  svg.append(make('text', {x: (box.left + box.right) / 2, y: box.bottom + 36, class: 'faint', 'text-anchor': 'middle',
    text: 'rows (tokens); full points are measured, hollow ones predicted'}));
  const ends = [];
  for (const {name, colour, wide, points: some} of lines) {
    if (some.length === 0) continue;
    some.sort((a, b) => a.rows - b.rows);
    svg.append(make('polyline', {points: some.map(point => `${x(point.rows)},${y(point.gain)}`).join(' '), fill: 'none',
      stroke: colour, 'stroke-width': wide}));
    for (const point of some) {
      svg.append(explain(make('circle', {cx: x(point.rows), cy: y(point.gain), r: 4.5, stroke: colour, 'stroke-width': 1.8,
        fill: point.isMeasured ? colour : 'var(--ground)'}), point.says));
    }
    ends.push({name, colour, gain: some[some.length - 1].gain});
  }
  // Names at the right make room for one another.
  let above = -Infinity;
  ends.sort((a, b) => b.gain - a.gain);
  const places = ends.map(end => above = Math.max(above + 15, y(end.gain) + 4)), over = Math.max(0, above - box.bottom);
  for (const [i, end] of ends.entries()) {
    svg.append(make('text', {x: box.right + 8, y: places[i] - over, text: `${end.name} ${end.gain.toFixed(2)}x`, style: `fill: ${end.colour}`,
      'font-weight': end.name === 'layer' ? 600 : 400}));
  }
  place.append(svg);
}
