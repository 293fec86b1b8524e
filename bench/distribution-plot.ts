/** One line of a plot: measured times in ms, sorted. */
export type Series = Readonly<{ name: string; values: readonly number[] }>

const WIDTH = 900
const LEFT = 330
const ROW = 46
const BAR = 18

/**
 * Distributions as an SVG, one row each on a common logarithmic axis: a bar from p5 to p95, a tick for each measurement,
 * a mark at the median and one at p99.
 */
export function distributionPlot(series: readonly Series[]): string {
  const all = series.flatMap(({ values }) => values)
  const [low, high] = [Math.min(...all) * 0.8, Math.max(...all) * 1.2]
  const x = (ms: number): number => {
    const share = (Math.log(ms) - Math.log(low)) / (Math.log(high) - Math.log(low))
    return Math.round((LEFT + share * (WIDTH - LEFT - 30)) * 10) / 10
  }
  const at = (values: readonly number[], share: number): number =>
    values[Math.min(values.length - 1, Math.floor(share * values.length))]!
  const height = 60 + series.length * ROW
  const ticks = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000].filter((ms) => ms >= low && ms <= high)
  const grid = ticks.map(
    (ms) =>
      `<line x1="${x(ms)}" y1="30" x2="${x(ms)}" y2="${height - 25}" stroke="#ddd"/><text x="${x(ms)}" y="${height - 8}" text-anchor="middle">${ms} ms</text>`,
  )
  const rows = series.map(({ name, values }, index) => {
    const y = 40 + index * ROW
    const color = index % 2 === 0 ? '#2563eb' : '#9ca3af'
    const dots = values.map(
      (ms) => `<line x1="${x(ms)}" y1="${y}" x2="${x(ms)}" y2="${y + BAR}" stroke="${color}" stroke-opacity="0.25"/>`,
    )
    const [p5, p50, p95, p99] = [0.05, 0.5, 0.95, 0.99].map((share) => at(values, share)) as [
      number,
      number,
      number,
      number,
    ]
    return [
      `<text x="${LEFT - 12}" y="${y + 13}" text-anchor="end">${escapeText(name)}</text>`,
      `<rect x="${x(p5)}" y="${y + 3}" width="${Math.max(1, x(p95) - x(p5))}" height="${BAR - 6}" fill="${color}" fill-opacity="0.3"/>`,
      ...dots,
      `<line x1="${x(p50)}" y1="${y - 3}" x2="${x(p50)}" y2="${y + BAR + 3}" stroke="${color}" stroke-width="3"/>`,
      `<circle cx="${x(p99)}" cy="${y + BAR / 2}" r="4" fill="none" stroke="${color}" stroke-width="2"/>`,
      `<text x="${x(p50)}" y="${y + BAR + 14}" text-anchor="middle" font-size="10">${p50.toFixed(1)}</text>`,
    ].join('')
  })
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" font-family="sans-serif" font-size="12" role="img" aria-labelledby="title">`,
    `<title id="title">Latencies of workspace operations beside their floors</title>`,
    `<rect width="100%" height="100%" fill="white"/>`,
    `<text x="12" y="18" font-size="13">Workspace latencies: bar p5 to p95, line median, circle p99 (logarithmic)</text>`,
    ...grid,
    ...rows,
    '</svg>\n',
  ].join('\n')
}

const escapeText = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
