// What stands at a place of the canvas, and what the box beside the pointer says of it.
Object.assign(TimelineView.prototype, {
  // {band, span} of a lane's row, {band, row, ...} of others; null where nothing is.
  at(x, y) {
    const row = this.rowAt(y + this.stage.scrollTop);
    if (!row || y < kAxis) return null;
    if (x < kLabels) return {band: row.band, row};
    const time = this.time(x);
    if (row.type === 'lane') return {band: row.band, row, span: this.spanAt(row.band, row.lane, time), time};
    return {band: row.band, row, time};
  },

  // The span at a time, or the nearest within some dots.
  spanAt(band, lane, time) {
    const {spans, first} = band, reach = 3 * (this.to - this.from) / (this.right - kLabels);
    let best, least = reach;
    for (let i = this.firstIn(band, lane); i < first[lane + 1] && spans.start[i] <= time + reach; ++i) {
      const away = Math.max(spans.start[i] - time, time - spans.start[i] - spans.took[i], 0);
      if (away <= least && (away < least || best === undefined || away === 0)) [best, least] = [i, away];
    }
    return best;
  },

  // Which waits what a lane did up to its next task has ended.
  awaited(band, span) {
    const {spans, first} = band, lane = spans.lane[span];
    band.ended ??= this.endedBy(band);
    const until = span + 1 < first[lane + 1] ? spans.pos[span + 1] : Infinity;
    return (band.ended.get(lane) ?? []).filter(([pos]) => pos > spans.pos[span] && pos < until).map(([, wait]) => wait);
  },

  endedBy(band) {
    const ended = new Map(), {spans} = band;
    for (let i = 0; i < spans.count; ++i) {
      if (!spans.byLane[i]) continue;
      const lane = spans.byLane[i] - 1;
      if (!ended.has(lane)) ended.set(lane, []);
      ended.get(lane).push([spans.byPos[i], i]);
    }
    return ended;
  },

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
  },

  describeShare({band, row, time}, when) {
    const {busy, lanes} = shares(band, row.rank, row.kind, this.from, this.to, this.columns());
    const percent = Math.round(100 * (busy[Math.floor(this.x(time) - kLabels)] ?? 0));
    const of = {link: 'of the time its link sends', network: 'of the time its network sends',
      compute: `of ${lanes} compute lanes are in tiles`, reduce: `of ${lanes} compute lanes add or move`}[row.kind]
      ?? `of ${lanes} ${row.kind} lane${lanes === 1 ? '' : 's'} at work`;
    return [`rank ${row.rank} ${row.kind}, ${when}`, `${percent} % ${of}`];
  },

  describeStep({band, time}) {
    const run = band.run, step = run.path.find(([, , start, end]) => time >= start && time <= end);
    if (!step) return ['critical path', 'nothing here'];
    const [lane, pos, start, end, name, why] = step;
    return [`${name} on the critical path`, `${laneName(run, lane)}, line ${run.lanes.line[lane] + 1 + pos}`,
      `${microseconds(start)} to ${microseconds(end)}: ${microseconds(end - start)}`, `because of: ${why}`];
  },

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
  },

  lineOf(band, span) {
    const {spans, run} = band;
    return run.lanes.line[spans.lane[span]] + 1 + spans.pos[span];
  },
});
