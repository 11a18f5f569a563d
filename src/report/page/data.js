// What the file holds, unpacked: columns of numbers, each the difference to the one above it.
const kSpanColumns = ['lane', 'start', 'took', 'pos', 'name', 'byLane', 'byPos', 'row', 'rows', 'col', 'cols',
  'buffer', 'depth', 'bytes', 'between', 'to', 'from'];

async function inflate(text) {
  const bytes = Uint8Array.from(atob(text), c => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

async function columns(packed, count, names) {
  const bytes = await inflate(packed), found = {count};
  let at = 0;
  for (const name of names) {
    const column = found[name] = new Float64Array(count);
    for (let i = 0, value = 0; i < count; ++i) {
      let number = 0, digit = 1, byte;
      do {
        byte = bytes[at++];
        number += (byte & 127) * digit;
        digit *= 128;
      } while (byte > 127);
      value += number % 2 ? -(number + 1) / 2 : number / 2;
      column[i] = value;
    }
  }
  return found;
}

// Kinds of rows; lanes of a rank add up to them.
const kKinds = ['compute', 'reduce', 'comm', 'copy', 'nccl', 'link', 'network'];

async function unpackTimeline(packed, run, label) {
  const spans = await columns(packed.spans, packed.count, kSpanColumns);
  const links = await columns(packed.links, packed.link_count, ['rank', 'network', 'start', 'took']);
  // Spans of lane L are first[L] up to first[L + 1].
  const first = new Uint32Array(run.lanes.count + 1);
  for (let i = 0; i < spans.count; ++i) ++first[spans.lane[i] + 1];
  for (let i = 0; i < run.lanes.count; ++i) first[i + 1] += first[i];
  return {run, label, spans, links, first, total: packed.total_us * 1e3, shares: new Map()};
}

// Which kind of row a span adds to.
function kindOf(run, lane, name) {
  const kind = data.lane_kinds[run.lanes.kind[lane]];
  return kind === 'compute' && run.names[name] !== 'gemm' ? 'reduce' : kind;
}

async function unpackRun(run, number) {
  run.number = number;
  run.lanes = await columns(run.lanes.data, run.lanes.count, ['kind', 'rank', 'index', 'line', 'length']);
  run.timelines = [await unpackTimeline(run.predicted, run, 'predicted')];
  if (run.measured) run.timelines.push(await unpackTimeline(run.measured, run, 'measured'));
  run.lanesOf = Array.from({length: data.ranks}, () => ({}));
  for (let lane = 0; lane < run.lanes.count; ++lane) {
    const kinds = run.lanesOf[run.lanes.rank[lane]], kind = data.lane_kinds[run.lanes.kind[lane]];
    (kinds[kind] ??= []).push(lane);
  }
}

function laneName(run, lane) {
  const lanes = run.lanes;
  return `rank ${lanes.rank[lane]} ${data.lane_kinds[lanes.kind[lane]]} ${lanes.index[lane]}`;
}

// How much of each of `count` columns from `from` to `to` (ns) rows of a kind were busy: 0 to 1.
function shares(timeline, rank, kind, from, to, count) {
  const key = `${rank} ${kind}`, known = timeline.shares.get(key);
  if (known && known.from === from && known.to === to && known.busy.length === count) return known;
  const busy = new Float32Array(count), width = (to - from) / count, run = timeline.run;
  let used = false;
  const add = (start, took) => {
    if (took > 0) used = true;
    const end = Math.min(start + took, to);
    if (end <= from || start >= to) return;
    const low = Math.max(0, (start - from) / width), high = (end - from) / width;
    for (let i = Math.floor(low); i < high && i < count; ++i) {
      busy[i] += Math.min(high, i + 1) - Math.max(low, i);
    }
  };
  let lanes = 1;
  if (kind === 'link' || kind === 'network') {
    const links = timeline.links;
    for (let i = 0; i < links.count; ++i) {
      if (links.rank[i] === rank && (links.network[i] === 1) === (kind === 'network')) {
        add(links.start[i], links.took[i]);
      }
    }
  } else {
    const of = run.lanesOf[rank][kind === 'reduce' ? 'compute' : kind] ?? [], spans = timeline.spans;
    lanes = of.length;
    for (const lane of of) {
      for (let i = timeline.first[lane]; i < timeline.first[lane + 1]; ++i) {
        const name = run.names[spans.name[i]];
        if (name !== 'wait' && kindOf(run, lane, spans.name[i]) === kind) add(spans.start[i], spans.took[i]);
      }
    }
  }
  for (let i = 0; i < count; ++i) busy[i] = Math.min(1, busy[i] / Math.max(1, lanes));
  const found = {from, to, busy, used, lanes};
  timeline.shares.set(key, found);
  return found;
}

// Of all ranks' compute lanes the share that is in no tile.
function exposedShares(timeline, from, to, count) {
  const sum = new Float32Array(count);
  let ranks = 0;
  for (let rank = 0; rank < data.ranks; ++rank) {
    const of = shares(timeline, rank, 'compute', from, to, count);
    if (of.lanes === 0) continue;
    ++ranks;
    for (let i = 0; i < count; ++i) sum[i] += of.busy[i];
  }
  if (ranks === 0) return sum;
  const width = (to - from) / count;
  for (let i = 0; i < count; ++i) {
    const inRun = Math.min(1, Math.max(0, (timeline.total - from) / width - i));
    sum[i] = Math.max(0, inRun - sum[i] / ranks);
  }
  return sum;
}
