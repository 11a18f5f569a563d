// How each kind of row is drawn, and the marks over them.
Object.assign(TimelineView.prototype, {
  draw_head(row) {
    const {band} = row, run = band.run, isLabelled = run.timelines.length > 1 || band.label === 'measured';
    const name = run.name + (isLabelled ? `, ${band.label}` : '');
    this.text(name, 10, row.y + 20, {bold: true, size: 13.5, most: 460});
    const width = this.pen.measureText(name).width;
    this.text(`${microseconds(band.total)}`, 10 + Math.min(width, 460) + 12, row.y + 20, {colour: 'faint'});
    this.pen.fillStyle = this.colour('line');
    this.pen.fillRect(0, row.y + 1, this.width, 1);
  },

  // The end of the run, through all rows of a band.
  drawEnd(row) {
    const x = this.x(row.band.total);
    if (x < kLabels || x > this.right) return;
    this.pen.fillStyle = this.colour('text');
    this.pen.fillRect(Math.round(x), row.y - 1, 1, row.height + kGap);
  },

  columns() { return Math.max(1, Math.round(this.right - kLabels)); },

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
  },

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
  },

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
  },

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
  },

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
  },

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
  },

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
  },

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
  },
});
