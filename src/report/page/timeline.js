// All timelines on one axis, drawn on a canvas of which only the part in sight is there. This file
// says what stands where; timeline_*.js add how it is drawn, what it says and what the user does.
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
}
