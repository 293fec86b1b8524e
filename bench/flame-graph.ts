/** A profile of V8's sampling profiler, as `node --cpu-prof` writes it. */
export type CpuProfile = Readonly<{
  /** In microseconds of the machine's monotonic clock, as process.hrtime has it. */
  startTime: number
  nodes: readonly ProfileNode[]
  samples: readonly number[]
  timeDeltas: readonly number[]
}>
type ProfileNode = Readonly<{
  id: number
  callFrame: { functionName: string; url: string; lineNumber: number }
  children?: readonly number[]
}>

type Frame = { name: string; colour: string; time: number; children: Map<string, Frame> }

const WIDTH = 1200
const ROW = 17
const NARROWEST = 1.5
const LETTER = 6.1

/**
 * Where a process spent its time from `fromMicros` on, as a flame graph in SVG: a box is a function, its width the share of the time that was spent
 * in it and in what it called, and what it called stands below it. Calls of one function are one box, wherever in it they
 * were made. What is narrower than a pixel and a half is left out.
 */
export function flameGraph(profile: CpuProfile, { title, fromMicros }: { title: string; fromMicros: number }): string {
  const root = foldProfile(profile, fromMicros)
  const scale = WIDTH / root.time
  const boxes: string[] = []
  let depthMax = 0
  const draw = (frame: Frame, x: number, depth: number): void => {
    const width = frame.time * scale
    if (width < NARROWEST) return
    depthMax = Math.max(depthMax, depth)
    boxes.push(boxOf(frame, { x, y: 40 + depth * ROW, width, share: frame.time / root.time }))
    let left = x
    for (const child of [...frame.children.values()].sort((a, b) => b.time - a.time)) {
      draw(child, left, depth + 1)
      left += child.time * scale
    }
  }
  draw(root, 0, 0)
  const height = 50 + (depthMax + 1) * ROW
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" font-family="sans-serif" font-size="11" role="img" aria-labelledby="title">`,
    `<title id="title">${escapeText(title)}</title>`,
    `<rect width="100%" height="100%" fill="white"/>`,
    `<text x="8" y="16" font-size="13">${escapeText(title)}</text>`,
    `<text x="8" y="32" fill="#555">blue: Castellan; green: SQLite, hashing and other native code; orange: Node and packages; grey: idle, engine, collection</text>`,
    ...boxes,
    '</svg>\n',
  ].join('\n')
}

function foldProfile({ startTime, nodes, samples, timeDeltas }: CpuProfile, fromMicros: number): Frame {
  const byId = new Map(nodes.map((node) => [node.id, node]))
  const parents = new Map(nodes.flatMap(({ id, children = [] }) => children.map((child) => [child, id] as const)))
  const root: Frame = { name: 'all', colour: '#e5e7eb', time: 0, children: new Map() }
  let at = startTime
  for (const [index, sample] of samples.entries()) {
    const time = Math.max(0, timeDeltas[index]!)
    at += time
    if (at < fromMicros) continue
    const stack: ProfileNode[] = []
    for (let id: number | undefined = sample; id !== undefined; id = parents.get(id)) stack.push(byId.get(id)!)
    root.time += time
    let frame = root
    // The last of the stack is the profile's own root.
    for (const node of stack.slice(0, -1).reverse()) {
      const name = nameOf(node)
      let child = frame.children.get(name)
      if (child === undefined) {
        child = { name, colour: colourOf(node), time: 0, children: new Map() }
        frame.children.set(name, child)
      }
      child.time += time
      frame = child
    }
  }
  return root
}

function nameOf({ callFrame: { functionName, url } }: ProfileNode): string {
  const file = url.split('/').slice(-1)[0]!
  return `${functionName === '' ? '(anonymous)' : functionName}${file === '' ? '' : ` ${file}`}`
}

function colourOf({ callFrame: { functionName, url } }: ProfileNode): string {
  if (functionName.startsWith('(')) return '#d1d5db'
  if (url === '') return '#86efac'
  return url.includes('/src/') && !url.includes('/node_modules/') ? '#93c5fd' : '#fdba74'
}

function boxOf(frame: Frame, at: { x: number; y: number; width: number; share: number }): string {
  const letters = Math.floor((at.width - 4) / LETTER)
  const label = letters < 3 ? '' : frame.name.slice(0, letters)
  const percent = (at.share * 100).toFixed(1)
  return [
    `<g><title>${escapeText(frame.name)}: ${percent} %</title>`,
    `<rect x="${at.x.toFixed(1)}" y="${at.y}" width="${at.width.toFixed(1)}" height="${ROW - 1}" fill="${frame.colour}" stroke="white" stroke-width="0.5"/>`,
    label === '' ? '' : `<text x="${(at.x + 2).toFixed(1)}" y="${at.y + 12}">${escapeText(label)}</text>`,
    '</g>',
  ].join('')
}

const escapeText = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
