// What is behind and around the rows of timelines: colours, texts, the grid and the axis.
Object.assign(TimelineView.prototype, {
  colour(name) {
    return this.colours[name] ??= getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  },

  colourOf(run, span) {
    const name = run.names[span];
    if (name === 'gemm' || name === 'copy' || name === 'collective' || name === 'wait') return this.colour(name);
    return name === 'boundary' || name === 'deliver' ? this.colour('wait') : this.colour('other');
  },

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
  },

  ticks() {
    const rough = (this.to - this.from) / Math.max(2, (this.right - kLabels) / 110);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find(factor => factor * power >= rough) * power;
    const found = [];
    for (let at = Math.ceil(this.from / step) * step; at <= this.to; at += step) found.push(at);
    return {step, found};
  },

  drawGrid(scroll) {
    const pen = this.pen;
    pen.fillStyle = this.colour('line');
    pen.globalAlpha = 0.55;
    for (const at of this.ticks().found) pen.fillRect(Math.round(this.x(at)), scroll, 1, this.seen);
    pen.globalAlpha = 1;
  },

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
      this.text(text, x, 16, {align: at === 0 ? 'left' : 'center', colour: 'faint', most: 90});
    }
  },

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
  },
});
