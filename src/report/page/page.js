// What every page needs: its data, texts of numbers, elements, and the theme.
const data = JSON.parse(document.getElementById('data').textContent);

function microseconds(ns, digits = 1) {
  return `${(ns / 1e3).toFixed(digits)} µs`;
}

function bytesText(bytes) {
  for (const [unit, size] of [['GiB', 2 ** 30], ['MiB', 2 ** 20], ['KiB', 2 ** 10]]) {
    if (bytes >= size) return `${+(bytes / size).toPrecision(3)} ${unit}`;
  }
  return `${bytes} bytes`;
}

function make(tag, properties = {}, ...children) {
  const svg = ['svg', 'rect', 'line', 'text', 'path', 'circle', 'title', 'g', 'polyline'].includes(tag);
  const element = svg ? document.createElementNS('http://www.w3.org/2000/svg', tag) : document.createElement(tag);
  for (const [key, value] of Object.entries(properties)) {
    if (key === 'text') element.textContent = value;
    else if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else if (value !== undefined && value !== false) element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

function themes(redraw) {
  const button = document.getElementById('theme'), dark = matchMedia('(prefers-color-scheme: dark)');
  let chosen = null;  // null: as the system has it
  const apply = () => {
    const theme = chosen ?? (dark.matches ? 'dark' : 'light');
    document.documentElement.dataset.theme = theme;
    button.textContent = theme === 'dark' ? 'Light' : 'Dark';
    redraw();
  };
  button.addEventListener('click', () => {
    chosen = document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark';
    apply();
  });
  dark.addEventListener('change', apply);
  apply();
}
