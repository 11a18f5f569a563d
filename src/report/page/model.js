// Puts the page of a model together: what it gains, its charts, and a table for each number of rows.
function saysWhatItIs() {
  const {ranks, machine, dtype, experts} = data;
  document.getElementById('machine').textContent = [
    `${data.layers} layers`, `hidden size ${data.hidden}`,
    experts > 1 ? `${experts} experts of ${data.intermediate}` + (data.experts_a_row > 0 ? `, ${data.experts_a_row} a row` : '') : `intermediate size ${data.intermediate}`,
    `${data.heads} heads of ${data.head_dim} (${data.latent_attention ? 'latent attention' : `${data.kv_heads} for K and V`})`,
    `${ranks} rank${ranks === 1 ? '' : 's'} of ${machine}, ${dtype}`,
    data.all_reduce ? 'all rows on every rank' : 'sequence parallelism', `stretto ${data.stretto}`].join(' · ');
  const whole = data.results.filter(layer => layer.gain !== undefined);
  const answer = document.getElementById('answer'), note = document.getElementById('answer-note');
  if (whole.length === 0) {
    answer.textContent = 'Not all parts of a layer are served; the tables say which, and why.';
    return;
  }
  answer.append('Speed-up of the linears of a layer over the library: ',
    ...whole.flatMap((layer, i) => [i > 0 ? ', ' : '', make('b', {text: `${layer.gain.toFixed(2)}x`}),
      ` with ${rowsText(layer.rows)} rows`]), '.');
  if (whole.some(layer => !layer.runs_on_gpus)) {
    note.textContent = 'These figures have a part that GPUs have no kernels for yet: they say what its plan would gain.';
  }
}

function rowOf(part, rows) {
  if (!isServed(part)) {
    return make('tr', {}, make('td', {text: part.linear}),
      make('td', {class: 'left note', colspan: 9, text: `not estimated: ${part.refused}`}));
  }
  const {n, k, f, m} = part.operator, cell = (text, kind) => make('td', {text, class: kind});
  const swatch = make('i', {class: 'swatch', style: `background: ${colourOfPart(part.linear)}`});
  const row = make('tr', {}, make('td', {}, swatch, part.linear), cell(part.operator.kind, 'left'),
    cell(m === undefined ? `${data.experts} x ${f}` : n), cell(m === undefined ? '' : k), cell(part.library_us.toFixed(1)),
    cell(part.stretto_us.toFixed(1)), cell(part.gain.toFixed(2), part.gain >= 1.005 ? 'good' : part.gain < 0.995 ? 'bad' : undefined),
    cell(bytesText(part.symmetric_bytes)), cell(part.runs_on_gpus ? part.from : 'planned', 'left'),
    make('td', {class: 'left schedule', text: part.schedule}));
  return explain(row, linesOf(part, rows));
}

function showLayer(layer) {
  const head = make('tr');
  for (const [name, unit] of [['part'], ['operator'], ['N'], ['K'], ['library', 'µs'], ['Stretto', 'µs'], ['gain', 'x'],
    ['buffers', 'of a rank'], ['from'], ['schedule']]) {
    const cell = make('th', {class: ['operator', 'from', 'schedule'].includes(name) ? 'left' : undefined, text: name});
    if (unit) cell.append(make('br'), make('small', {text: unit}));
    head.append(cell);
  }
  const body = make('tbody', {}, ...layer.linears.map(part => rowOf(part, layer.rows)));
  const section = make('section', {}, make('h2', {text: `${rowsText(layer.rows)} rows`}),
    make('div', {class: 'scrolls'}, make('table', {}, make('thead', {}, head), body)));
  if (layer.gain !== undefined) {
    const cells = ['layer', '', '', '', layer.library_us.toFixed(1), layer.stretto_us.toFixed(1), layer.gain.toFixed(2),
      bytesText(layer.symmetric_bytes), '', ''];
    body.append(make('tr', {class: 'sum'}, ...cells.map(text => make('td', {text}))));
    section.append(make('p', {class: 'note', text: `${data.layers_alike} layers: ` +
      `${(layer.library_us * data.layers_alike / 1e3).toFixed(1)} ms with the library, ` +
      `${(layer.stretto_us * data.layers_alike / 1e3).toFixed(1)} ms with Stretto.`}));
  }
  document.getElementById('layers').append(section);
}

function showWords() {
  const words = document.getElementById('words');
  const say = (word, text) => words.append(make('dt', {text: word}), make('dd', {text}));
  const parts = data.results.flatMap(layer => layer.linears).filter(isServed);
  say('library', 'cuBLAS, then NCCL; of experts, of which cuBLAS has no product, our kernels with all communication exposed');
  say('Stretto', 'the schedule that auto takes');
  say('buffers', 'memory of a rank for what others send it; parts run one after the other, so a layer needs the most of them. Slots ' +
    'of low-latency collectives are besides');
  if (parts.some(part => part.linear === 'experts')) {
    say('experts', 'rows choose them evenly; no time of experts was measured that predictions could be held to');
  }
  if (parts.some(part => part.from === 'measured')) say('measured', 'on GPUs, and kept in the tuning file');
  if (parts.some(part => !part.runs_on_gpus)) say('planned', 'predicted for a plan that GPUs have no kernels for yet');
  for (const few of [true, false]) {
    const layer = data.results.find(one => (one.rows < 512) === few);
    if (!layer) continue;
    const {measurements, median, nine_in_ten} = layer.prediction_error, of = few ? 'fewer than 512' : '512 and more';
    const percent = share => `${(100 * share).toFixed(0)} %`;
    say('predicted', measurements === 0 ? 'simulated; nothing was measured on this machine to compare with'
      : `simulated. Where ${of} rows were measured on ${data.machine} (${measurements} times) it was ${percent(median)} off in ` +
        `the median, and nine in ten times within ${percent(nine_in_ten)}`);
  }
  if (data.source) say('sizes', data.source);
  const unserved = document.getElementById('unserved');
  for (const {part, why} of data.not_served) unserved.append(make('dt', {text: part}), make('dd', {text: why}));
}

saysWhatItIs();
if (data.results.some(layer => layer.linears.some(isServed))) {
  drawParts(document.getElementById('parts'));
  drawGains(document.getElementById('gains'));
} else {
  document.getElementById('charts').hidden = true;
}
for (const layer of data.results) showLayer(layer);
showWords();
themes(() => {});
