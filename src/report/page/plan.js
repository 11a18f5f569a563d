// The plans' texts: only the lines in sight are in the document.
const kLineHeight = 18;

class PlanView {
  constructor(onLine) {
    this.box = document.getElementById('plan');
    this.lines = document.getElementById('plan-lines');
    this.state = document.getElementById('plan-state');
    this.choice = document.getElementById('plan-of');
    this.onLine = onLine;
    this.texts = new Map();
    this.at = 0;
    data.runs.forEach((run, i) => this.choice.append(make('option', {value: i, text: run.name})));
    this.choice.addEventListener('change', () => this.show(data.runs[this.choice.value], 1));
    this.box.addEventListener('scroll', () => this.draw());
    new ResizeObserver(() => this.draw()).observe(this.box);
    const find = document.getElementById('plan-find');
    find.addEventListener('keydown', event => { if (event.key === 'Enter') this.find(find.value.trim()); });
  }

  async textOf(run) {
    const of = run.text_of === undefined ? run : data.runs[run.text_of];
    if (of.text === undefined) return null;
    if (!this.texts.has(of.number)) {
      this.texts.set(of.number, new TextDecoder().decode(await inflate(of.text)).split('\n'));
    }
    return this.texts.get(of.number);
  }

  lineText(run, line) {
    const of = run.text_of === undefined ? run : data.runs[run.text_of];
    return this.texts.get(of.number)?.[line - 1] ?? '';
  }

  // Line 0: the beginning, with nothing marked.
  async show(run, line, quiet = false) {
    this.run = run;
    this.choice.value = run.number;
    document.getElementById('schedule').textContent = `${run.name}: ${run.schedule}`;
    const text = await this.textOf(run);
    if (this.run !== run) return;
    this.text = text ?? ['The plans of this report are too large to be all in it.', `stretto plan prints this one: ${run.schedule}`];
    this.at = line;
    document.getElementById('plan-tall').style.height = `${this.text.length * kLineHeight}px`;
    this.state.textContent = `${this.text.length.toLocaleString('en')} lines`;
    const top = (line - 1) * kLineHeight;
    if (top < this.box.scrollTop || top > this.box.scrollTop + this.box.clientHeight - 2 * kLineHeight) {
      this.box.scrollTop = Math.max(0, top - this.box.clientHeight / 3);
    }
    if (!quiet && line > 0) {
      history.replaceState(null, '', `#${run.number}:${line}`);
      document.getElementById('plan-section').scrollIntoView({block: 'nearest', behavior: 'smooth'});
    }
    this.draw();
  }

  find(what) {
    if (!what || !this.text) return;
    if (/^\d+$/.test(what)) return void this.show(this.run, Math.min(Math.max(1, +what), this.text.length));
    for (let i = 0; i < this.text.length; ++i) {
      const line = (this.at + i) % this.text.length;
      if (this.text[line].includes(what)) return void this.show(this.run, line + 1);
    }
    this.state.textContent = 'not found';
  }

  draw() {
    if (!this.text) return;
    const first = Math.max(0, Math.floor(this.box.scrollTop / kLineHeight) - 5);
    const last = Math.min(this.text.length, first + Math.ceil(this.box.clientHeight / kLineHeight) + 10);
    this.lines.style.top = `${first * kLineHeight}px`;
    this.lines.replaceChildren(...this.text.slice(first, last).map((text, i) => {
      const number = first + i + 1;
      return make('div', {class: number === this.at ? 'at' : undefined, onclick: () => {
        this.at = number;
        history.replaceState(null, '', `#${this.run.number}:${number}`);
        this.draw();
        this.onLine(this.run, number);
      }}, make('i', {text: number}), text);
    }));
  }
}
