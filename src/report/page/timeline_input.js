// What pointer, wheel and keys do.
Object.assign(TimelineView.prototype, {
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
  },

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
  },

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
  },

  move(share) {
    const by = share * (this.to - this.from);
    this.zoomTo(this.from + by, this.to + by);
  },
});
