// All timelines on one axis, drawn on a canvas of which only the part in sight is there.
const kLabels = 148, kAxis = 28, kMargin = 14;
const kShareHeight = 20, kStripHeight = 13, kHeadHeight = 30, kGap = 3;

class TimelineView {
  // `lineText(run, line)`: what the plan says there; empty as long as it is not unpacked.
  constructor(onPick, lineText) {
    this.stage = document.getElementById('stage');
    this.canvas = document.getElementById('canvas');
    this.tall = document.getElementById('tall');
    this.tip = document.getElementById('tip');
    this.pen = this.canvas.getContext('2d');
    this.onPick = onPick;
    this.lineText = lineText;
    this.bands = data.runs.flatMap(run => run.timelines);
    this.end = Math.max(1, ...this.bands.map(band => band.total)) * 1.02;
    this.from = 0;
    this.to = this.end;
    this.shownRanks = Math.min(data.ranks, this.bands.length > 2 ? 1 : 2);
    this.open = new Set();
    this.laneHeight = 4;
    this.showPath = true;
    this.listen();
    this.layOut();
    // Its height follows from its width, so not while the browser still measures.
    new ResizeObserver(() => requestAnimationFrame(() => this.resize())).observe(this.stage);
  }

  // --- what stands where ---

  layOut() {
    this.rows = [];
    let y = kAxis + 4;
    const add = (height, row) => {
      this.rows.push({y, height, ...row});
      y += height + (row.gap ?? kGap);
    };
    for (const band of this.bands) {
      add(kHeadHeight, {type: 'head', band, gap: 0});
      if (this.showPath && band.label === 'predicted' && band.run.path.length > 0) {
        add(kStripHeight, {type: 'path', band});
      }
      add(kStripHeight, {type: 'exposed', band});
      for (let rank = 0; rank < this.shownRanks; ++rank) this.addRank(add, band, rank);
      y += 12;
    }
    this.height = y;
    this.tall.style.height = `${y}px`;
  }

  addRank(add, band, rank) {
    const isOpen = this.open.has(`${band.run.number} ${band.label} ${rank}`);
    let isFirst = true;
    for (const kind of kKinds) {
      if (!shares(band, rank, kind, 0, this.end, 64).used) continue;
      add(kShareHeight, {type: 'share', band, rank, kind, isFirst, isOpen});
      isFirst = false;
      const lanes = band.run.lanesOf[rank][kind] ?? [];
      if (!isOpen || kind === 'reduce') continue;
      for (const [i, lane] of lanes.entries()) {
        add(this.laneHeight, {type: 'lane', band, rank, kind, lane, count: lanes.length, isFirst: i === 0,
          gap: i + 1 < lanes.length ? (this.laneHeight > 7 ? 1 : 0) : kGap + 2});
      }
    }
    if (isFirst) add(kShareHeight, {type: 'share', band, rank, kind: 'compute', isFirst, isOpen});
  }

  resize() {
    const width = this.stage.clientWidth;
    const most = Math.floor(innerHeight * 0.72), height = Math.min(this.height, most);
    this.stage.style.height = `${height + 2}px`;
    const dots = devicePixelRatio || 1;
    this.width = width;
    this.seen = height;
    this.canvas.width = Math.round(width * dots);
    this.canvas.height = Math.round(height * dots);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    // The canvas stays in sight while what is tall scrolls behind it.
    this.tall.style.marginTop = `-${height}px`;
    this.pen.setTransform(dots, 0, 0, dots, 0, 0);
    this.draw();
  }

  changed() {
    this.layOut();
    this.resize();
  }

  get right() { return this.width - kMargin; }
  x(time) { return kLabels + (time - this.from) / (this.to - this.from) * (this.right - kLabels); }
  time(x) { return this.from + (x - kLabels) / (this.right - kLabels) * (this.to - this.from); }
  rowAt(y) { return this.rows.find(row => y >= row.y && y < row.y + row.height + 1); }
  rowOf(band, lane) { return this.rows.find(row => row.type === 'lane' && row.band === band && row.lane === lane); }

  zoomTo(from, to) {
    const least = 200;  // ns
    const middle = (from + to) / 2, half = Math.max(least, to - from) / 2;
    this.from = Math.max(0, Math.min(middle - half, this.end - 2 * half));
    this.to = Math.min(this.end, this.from + 2 * half);
    this.draw();
  }

  zoomBy(factor, at = (this.from + this.to) / 2) {
    this.zoomTo(at - (at - this.from) * factor, at + (this.to - at) * factor);
  }

  // --- drawing ---

  colour(name) {
    return this.colours[name] ??= getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  }

  colourOf(run, span) {
    const name = run.names[span];
    if (name === 'gemm' || name === 'copy' || name === 'collective' || name === 'wait') return this.colour(name);
    return name === 'boundary' || name === 'deliver' ? this.colour('wait') : this.colour('other');
  }

  draw() {
    if (!this.width) return;
    const pen = this.pen, scroll = this.stage.scrollTop;
    this.colours = {};
    pen.fillStyle = this.colour('ground');
    pen.fillRect(0, 0, this.width, this.seen);
    pen.save();
    pen.translate(0, -scroll);
    const rows = this.rows.filter(row => row.y + row.height > scroll && row.y < scroll + this.seen);
    this.drawGrid(scroll);
    for (const row of rows) this['draw_' + row.type](row);
    if (this.showPath) this.drawPath(rows);
    this.drawMarked();
    pen.restore();
    this.drawAxis();
    if (this.brush) {
      pen.fillStyle = this.colour('accent');
      pen.globalAlpha = 0.18;
      const [a, b] = this.brush;
      pen.fillRect(Math.min(a, b), kAxis, Math.abs(a - b), this.seen);
      pen.globalAlpha = 1;
    }
  }

  ticks() {
    const rough = (this.to - this.from) / Math.max(2, (this.right - kLabels) / 110);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find(factor => factor * power >= rough) * power;
    const found = [];
    for (let at = Math.ceil(this.from / step) * step; at <= this.to; at += step) found.push(at);
    return {step, found};
  }

  drawGrid(scroll) {
    const pen = this.pen;
    pen.fillStyle = this.colour('line');
    pen.globalAlpha = 0.55;
    for (const at of this.ticks().found) pen.fillRect(Math.round(this.x(at)), scroll, 1, this.seen);
    pen.globalAlpha = 1;
  }

  drawAxis() {
    const pen = this.pen, {step, found} = this.ticks();
    pen.fillStyle = this.colour('ground');
    pen.fillRect(0, 0, this.width, kAxis);
    pen.fillStyle = this.colour('line');
    pen.fillRect(0, kAxis - 1, this.width, 1);
    const digits = Math.max(0, -Math.floor(Math.log10(step / 1e3) + 1e-9));
    for (const at of found) {
      const x = Math.round(this.x(at));
      pen.fillStyle = this.colour('faint');
      pen.fillRect(x, kAxis - 6, 1, 5);
      const text = (at / 1e3).toFixed(digits) + (at === found[0] ? ' µs' : '');
      this.text(text, at === 0 ? x : x, 16, {align: at === 0 ? 'left' : 'center', colour: 'faint', most: 90});
    }
  }

  text(words, x, y, {align = 'left', colour = 'text', bold = false, size = 12, most} = {}) {
    const pen = this.pen;
    pen.font = `${bold ? '600 ' : ''}${size}px system-ui, "Segoe UI", sans-serif`;
    pen.fillStyle = this.colour(colour);
    pen.textAlign = align;
    pen.textBaseline = 'alphabetic';
    if (most && pen.measureText(words).width > most) {
      while (words.length > 1 && pen.measureText(words + '…').width > most) words = words.slice(0, -1);
      words += '…';
    }
    pen.fillText(words, x, y);
  }

  draw_head(row) {
    const {band} = row, run = band.run, several = run.timelines.length > 1;
    this.text(run.name + (several || band.label === 'measured' ? `, ${band.label}` : ''), 10, row.y + 20,
      {bold: true, size: 13.5, most: 460});
    const width = this.pen.measureText(run.name + (several ? `, ${band.label}` : '')).width;
    this.text(`${microseconds(band.total)}`, 10 + Math.min(width, 460) + 12, row.y + 20, {colour: 'faint'});
    this.pen.fillStyle = this.colour('line');
    this.pen.fillRect(0, row.y + 1, this.width, 1);
  }

  // The end of the run, through all rows of a band.
  drawEnd(row) {
    const x = this.x(row.band.total);
    if (x < kLabels || x > this.right) return;
    this.pen.fillStyle = this.colour('text');
    this.pen.fillRect(Math.round(x), row.y - 1, 1, row.height + kGap);
  }

  columns() { return Math.max(1, Math.round(this.right - kLabels)); }

  draw_exposed(row) {
    this.text('exposed', kLabels - 10, row.y + 11, {align: 'right', colour: 'faint'});
    const busy = exposedShares(row.band, this.from, this.to, this.columns());
    this.pen.fillStyle = this.colour('exposed');
    for (let i = 0; i < busy.length; ++i) {
      if (busy[i] < 0.02) continue;
      this.pen.globalAlpha = Math.min(1, busy[i]);
      this.pen.fillRect(kLabels + i, row.y, 1.02, row.height);
    }
    this.pen.globalAlpha = 1;
    this.drawEnd(row);
  }

  draw_share(row) {
    const {band, rank, kind} = row, middle = row.y + 14;
    if (row.isFirst) this.text(`${row.isOpen ? '▾' : '▸'} rank ${rank}`, 10, middle, {bold: true});
    this.text(kind, kLabels - 10, middle, {align: 'right', colour: 'faint'});
    const {busy} = shares(band, rank, kind, this.from, this.to, this.columns());
    const pen = this.pen;
    pen.fillStyle = this.colour('raised');
    pen.fillRect(kLabels, row.y, Math.max(0, Math.min(this.right, this.x(band.total)) - kLabels), row.height);
    pen.fillStyle = this.colour({compute: 'gemm', reduce: 'other', comm: 'copy', copy: 'copy', nccl: 'collective',
      link: 'link', network: 'network'}[kind]);
    for (let i = 0; i < busy.length; ++i) {
      if (busy[i] <= 0) continue;
      const high = Math.max(1, busy[i] * row.height);
      pen.fillRect(kLabels + i, row.y + row.height - high, 1.02, high);
    }
    this.drawEnd(row);
  }

  draw_lane(row) {
    const {band, lane} = row, {spans, first, run} = band, pen = this.pen;
    if (this.laneHeight > 11) {
      this.text(`${row.kind} ${run.lanes.index[lane]}`, kLabels - 10, row.y + row.height - 3,
        {align: 'right', colour: 'faint', size: 10.5});
    } else if (row.isFirst) {
      const words = row.count === 1 ? `${row.kind} lane` : `${row.count} ${row.kind} lanes`;
      this.text(words, kLabels - 10, row.y + Math.max(10, this.laneHeight / 2 + 4), {align: 'right', colour: 'faint', size: 11});
    }
    const height = this.laneHeight > 7 ? row.height : row.height - (this.laneHeight > 2 ? 0.6 : 0);
    let covered = -1;
    for (let i = this.firstIn(band, lane); i < first[lane + 1] && spans.start[i] < this.to; ++i) {
      const from = Math.max(kLabels, this.x(spans.start[i])), to = Math.min(this.right, this.x(spans.start[i] + spans.took[i]));
      // What is narrower than a dot is drawn where nothing was.
      if (to - from < 0.4 && to <= covered) continue;
      pen.fillStyle = this.colourOf(run, spans.name[i]);
      const wide = to - from;
      pen.fillRect(from, row.y, Math.max(0.6, wide > 3 ? wide - 0.6 : wide), height);
      covered = Math.max(covered, from + 0.6);
      if (this.laneHeight > 11 && wide > 46) {
        pen.save();
        pen.beginPath();
        pen.rect(from, row.y, wide, height);
        pen.clip();
        const isWait = run.names[spans.name[i]] === 'wait';
        this.text(run.names[spans.name[i]], from + 4, row.y + height - 3.5, {size: 10.5, colour: isWait ? 'faint' : 'ground'});
        pen.restore();
      }
    }
  }

  // The first span of a lane that ends in sight.
  firstIn(band, lane) {
    const {spans, first} = band;
    let low = first[lane], high = first[lane + 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (spans.start[middle] + spans.took[middle] < this.from) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  draw_path(row) {
    this.text('critical path', kLabels - 10, row.y + 11, {align: 'right', colour: 'faint'});
    const run = row.band.run;
    for (const [, , start, end, name] of run.path) {
      const from = Math.max(kLabels, this.x(start)), to = Math.min(this.right, this.x(end));
      if (to <= from) continue;
      this.pen.fillStyle = this.colourOf(run, run.names.indexOf(name));
      this.pen.fillRect(from, row.y, Math.max(1, to - from - 1), row.height);
    }
    this.drawEnd(row);
  }

  // Over the lanes that are open.
  drawPath(rows) {
    const pen = this.pen, byLane = new Map();
    for (const row of rows) if (row.type === 'lane' && row.band.label === 'predicted') byLane.set(row.band.run.number + ' ' + row.lane, row);
    if (byLane.size === 0) return;
    pen.strokeStyle = this.colour('path');
    for (const run of data.runs) {
      let before = null;
      for (const [lane, , start, end] of run.path) {
        const row = byLane.get(run.number + ' ' + lane);
        if (!row) { before = null; continue; }
        const from = Math.max(kLabels, this.x(start)), to = Math.min(this.right, this.x(end)), middle = row.y + row.height / 2;
        if (to < from) { before = null; continue; }
        pen.lineWidth = 1.5;
        pen.strokeRect(from, row.y - 0.5, Math.max(1, to - from - 1), row.height);
        if (before) {
          pen.lineWidth = 1;
          pen.beginPath();
          pen.moveTo(before[0], before[1]);
          pen.lineTo(from, middle);
          pen.stroke();
        }
        before = [to, middle];
      }
    }
  }

  // Outlines of what is pointed at and picked, and who ended a wait.
  drawMarked() {
    for (const [mark, wide] of [[this.picked, 2], [this.pointed, 1.5]]) {
      if (!mark || mark.span === undefined) continue;
      const row = this.rowOf(mark.band, mark.band.spans.lane[mark.span]);
      if (!row) continue;
      const {spans} = mark.band, pen = this.pen;
      const from = Math.max(kLabels, this.x(spans.start[mark.span]));
      const to = Math.min(this.right, this.x(spans.start[mark.span] + spans.took[mark.span]));
      pen.strokeStyle = this.colour('accent');
      pen.lineWidth = wide;
      pen.strokeRect(from - 1, row.y - 1, Math.max(2, to - from + 1.4), row.height + 1.4);
      const source = spans.byLane[mark.span] ? this.rowOf(mark.band, spans.byLane[mark.span] - 1) : null;
      if (source) this.drawArrow(to, source.y + source.height / 2, row.y + row.height / 2);
    }
  }

  drawArrow(x, from, to) {
    const pen = this.pen, down = Math.sign(to - from) || 1;
    pen.beginPath();
    pen.moveTo(x, from);
    pen.lineTo(x, to);
    pen.moveTo(x - 4, to - 6 * down);
    pen.lineTo(x, to);
    pen.lineTo(x + 4, to - 6 * down);
    pen.stroke();
    pen.beginPath();
    pen.arc(x, from, 3, 0, 7);
    pen.fillStyle = this.colour('accent');
    pen.fill();
  }

  // --- what is pointed at ---

  // {band, span} of a lane's row, {band, row, ...} of others; null where nothing is.
  at(x, y) {
    const row = this.rowAt(y + this.stage.scrollTop);
    if (!row || y < kAxis) return null;
    if (x < kLabels) return {band: row.band, row};
    const time = this.time(x);
    if (row.type === 'lane') return {band: row.band, row, span: this.spanAt(row.band, row.lane, time), time};
    return {band: row.band, row, time};
  }

  // The span at a time, or the nearest within some dots.
  spanAt(band, lane, time) {
    const {spans, first} = band, reach = 3 * (this.to - this.from) / (this.right - kLabels);
    let best, least = reach;
    for (let i = this.firstIn(band, lane); i < first[lane + 1] && spans.start[i] <= time + reach; ++i) {
      const away = Math.max(spans.start[i] - time, time - spans.start[i] - spans.took[i], 0);
      if (away <= least && (away < least || best === undefined || away === 0)) [best, least] = [i, away];
    }
    return best;
  }

  // Which waits what a lane did up to its next task has ended.
  awaited(band, span) {
    const {spans, first} = band, lane = spans.lane[span];
    band.ended ??= this.endedBy(band);
    const until = span + 1 < first[lane + 1] ? spans.pos[span + 1] : Infinity;
    return (band.ended.get(lane) ?? []).filter(([pos]) => pos > spans.pos[span] && pos < until).map(([, wait]) => wait);
  }

  endedBy(band) {
    const ended = new Map(), {spans} = band;
    for (let i = 0; i < spans.count; ++i) {
      if (!spans.byLane[i]) continue;
      const lane = spans.byLane[i] - 1;
      if (!ended.has(lane)) ended.set(lane, []);
      ended.get(lane).push([spans.byPos[i], i]);
    }
    return ended;
  }

  // The lines of the box beside the pointer: the first is its heading.
  describe(found) {
    const {band, row} = found, run = band.run;
    if (row.type === 'head') return [run.name, run.schedule];
    if (found.time === undefined) {
      return row.type === 'share' ? [`rank ${row.rank}`, 'click: its lanes, one by one'] : null;
    }
    const when = microseconds(found.time);
    if (row.type === 'exposed') {
      const share = exposedShares(band, this.from, this.to, this.columns())[Math.floor(this.x(found.time) - kLabels)];
      return [`exposed, ${when}`, `${Math.round(100 * (share ?? 0))} % of all ranks' compute lanes are in no tile`];
    }
    if (row.type === 'share') return this.describeShare(found, when);
    if (row.type === 'path') return this.describeStep(found);
    return found.span === undefined ? [laneName(run, row.lane), `nothing at ${when}`] : this.describeSpan(band, found.span);
  }

  describeShare({band, row, time}, when) {
    const {busy, lanes} = shares(band, row.rank, row.kind, this.from, this.to, this.columns());
    const percent = Math.round(100 * (busy[Math.floor(this.x(time) - kLabels)] ?? 0));
    const of = {link: 'of the time its link sends', network: 'of the time its network sends',
      compute: `of ${lanes} compute lanes are in tiles`, reduce: `of ${lanes} compute lanes add or move`}[row.kind]
      ?? `of ${lanes} ${row.kind} lane${lanes === 1 ? '' : 's'} at work`;
    return [`rank ${row.rank} ${row.kind}, ${when}`, `${percent} % ${of}`];
  }

  describeStep({band, time}) {
    const run = band.run, step = run.path.find(([, , start, end]) => time >= start && time <= end);
    if (!step) return ['critical path', 'nothing here'];
    const [lane, pos, start, end, name, why] = step;
    return [`${name} on the critical path`, `${laneName(run, lane)}, line ${run.lanes.line[lane] + 1 + pos}`,
      `${microseconds(start)} to ${microseconds(end)}: ${microseconds(end - start)}`, `because of: ${why}`];
  }

  describeSpan(band, span) {
    const {spans, run} = band, of = name => spans[name][span], name = run.names[of('name')];
    const lane = of('lane'), lines = [];
    lines.push(`${name}, ${microseconds(of('took'), 2)}`);
    lines.push(`${laneName(run, lane)}, line ${this.lineOf(band, span)} of the plan`);
    lines.push(`${microseconds(of('start'), 2)} to ${microseconds(of('start') + of('took'), 2)}`);
    if (of('rows') > 0) {
      lines.push(`rows ${of('row')} to ${of('row') + of('rows') - 1}, columns ${of('col')} to ${of('col') + of('cols') - 1} of ` +
        `${run.names[of('buffer')]}` + (of('depth') > 0 ? `, sums of ${of('depth')}` : ''));
    }
    if (of('bytes') > 0) lines.push(`writes ${bytesText(of('bytes'))}`);
    const to = run.names[of('to')], from = run.names[of('from')];
    if (to) lines.push(`to rank ${to}: ${bytesText(of('between'))}`);
    if (from) lines.push(`from rank ${from}: ${bytesText(of('between'))}`);
    if (of('byLane')) lines.push(`ended by ${laneName(run, of('byLane') - 1)}, line ${run.lanes.line[of('byLane') - 1] + 1 + of('byPos')}`);
    const waits = this.awaited(band, span);
    if (waits.length > 0) {
      const names = [...new Set(waits.map(wait => laneName(run, spans.lane[wait])))];
      lines.push(`ends the wait of ${names.slice(0, 4).join(', ')}${names.length > 4 ? ` and ${names.length - 4} more` : ''}`);
    }
    const step = band.label === 'predicted' && run.path.find(([l, p]) => l === lane && p === of('pos'));
    if (step) lines.push(`on the critical path, because of: ${step[5]}`);
    const text = this.lineText(run, this.lineOf(band, span)).trim();
    if (text) lines.push(text.length > 220 ? text.slice(0, 220) + '…' : text);
    return lines;
  }

  lineOf(band, span) {
    const {spans, run} = band;
    return run.lanes.line[spans.lane[span]] + 1 + spans.pos[span];
  }

  point(event) {
    const box = this.canvas.getBoundingClientRect();
    const found = this.at(event.clientX - box.left, event.clientY - box.top);
    const lines = found && this.describe(found);
    this.canvas.style.cursor = found && found.time === undefined && found.row.type === 'share' ? 'pointer' : 'crosshair';
    const changed = this.pointed?.span !== found?.span || this.pointed?.band !== found?.band;
    this.pointed = found;
    if (changed) this.draw();
    this.tip.hidden = !lines;
    if (!lines) return;
    this.tip.replaceChildren(make('b', {text: lines[0]}), ...lines.slice(1).map(text => make('div', {text})));
    const {width, height} = this.tip.getBoundingClientRect();
    const left = event.clientX + 16 + width > innerWidth ? event.clientX - 12 - width : event.clientX + 16;
    const top = event.clientY + 16 + height > innerHeight ? event.clientY - 12 - height : event.clientY + 16;
    this.tip.style.left = `${Math.max(4, left)}px`;
    this.tip.style.top = `${Math.max(4, top)}px`;
  }

  pick(found) {
    if (!found) return;
    const {band, row} = found;
    if (found.time === undefined) {
      if (row.type === 'share') this.toggle(band, row.rank);
      return;
    }
    if (row.type === 'path') {
      const step = band.run.path.find(([, , start, end]) => found.time >= start && found.time <= end);
      if (step) this.onPick(band.run, band.run.lanes.line[step[0]] + 1 + step[1]);
      return;
    }
    if (found.span === undefined) return;
    this.picked = found;
    this.onPick(band.run, this.lineOf(band, found.span));
    this.draw();
  }

  toggle(band, rank) {
    const key = `${band.run.number} ${band.label} ${rank}`;
    if (!this.open.delete(key)) this.open.add(key);
    this.changed();
  }

  // Shows the instruction of a plan's line, if it took time.
  reveal(run, line) {
    const {lanes} = run;
    let lane = -1;
    for (let i = 0; i < lanes.count; ++i) if (lanes.line[i] < line && line <= lanes.line[i] + lanes.length[i]) lane = i;
    const band = run.timelines[0], {spans, first} = band;
    if (lane < 0) return false;
    const pos = line - lanes.line[lane] - 1;
    for (let i = first[lane]; i < first[lane + 1]; ++i) {
      if (spans.pos[i] !== pos) continue;
      const rank = lanes.rank[lane];
      this.shownRanks = Math.max(this.shownRanks, rank + 1);
      this.open.add(`${run.number} ${band.label} ${rank}`);
      this.picked = {band, span: i};
      this.changed();
      const row = this.rowOf(band, lane);
      this.stage.scrollTop = row.y - this.seen / 2;
      if (spans.start[i] < this.from || spans.start[i] + spans.took[i] > this.to) {
        const wide = Math.max(this.to - this.from, 3 * spans.took[i]);
        this.zoomTo(spans.start[i] + spans.took[i] / 2 - wide / 2, spans.start[i] + spans.took[i] / 2 + wide / 2);
      }
      this.draw();
      return true;
    }
    return false;
  }

  showBand(run) {
    const head = this.rows.find(row => row.type === 'head' && row.band.run === run);
    this.stage.scrollTop = head.y - kAxis;
    this.stage.scrollIntoView({block: 'nearest', behavior: 'smooth'});
  }

  // --- what the user does ---

  listen() {
    const {canvas, stage} = this;
    let pressed = null;
    const offset = event => event.clientX - canvas.getBoundingClientRect().left;
    stage.addEventListener('scroll', () => this.draw());
    canvas.addEventListener('mousedown', event => { pressed = {x: offset(event), event}; });
    canvas.addEventListener('mousemove', event => {
      if (pressed && Math.abs(offset(event) - pressed.x) > 4 && pressed.x > kLabels) {
        this.brush = [pressed.x, Math.max(kLabels, Math.min(this.right, offset(event)))];
        this.tip.hidden = true;
        this.draw();
      } else {
        this.point(event);
      }
    });
    addEventListener('mouseup', event => {
      if (!pressed) return;
      const brush = this.brush, began = pressed;
      this.brush = pressed = null;
      if (brush) return this.zoomTo(this.time(Math.min(...brush)), this.time(Math.max(...brush)));
      const box = canvas.getBoundingClientRect();
      if (event.target === canvas) this.pick(this.at(began.x, event.clientY - box.top));
    });
    canvas.addEventListener('mouseleave', () => {
      this.tip.hidden = true;
      this.pointed = null;
      this.draw();
    });
    canvas.addEventListener('dblclick', () => this.zoomTo(0, this.end));
    canvas.addEventListener('wheel', event => {
      if (event.ctrlKey || event.metaKey) this.zoomBy(event.deltaY > 0 ? 1.25 : 0.8, this.time(offset(event)));
      else if (event.shiftKey || event.deltaX) this.move((event.deltaX || event.deltaY) / 800);
      else return;
      event.preventDefault();
    }, {passive: false});
    stage.addEventListener('keydown', event => {
      const does = {w: () => this.zoomBy(0.7), s: () => this.zoomBy(1.4), a: () => this.move(-0.15), d: () => this.move(0.15)}[event.key];
      if (!does || event.ctrlKey || event.metaKey) return;
      does();
      event.preventDefault();
    });
  }

  move(share) {
    const by = share * (this.to - this.from);
    this.zoomTo(this.from + by, this.to + by);
  }
}
