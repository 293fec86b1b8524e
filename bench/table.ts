/** One row of the report: what was measured, ours beside a floor or peer of the same run, and what we set out to reach. */
export type Target = Readonly<{ atLeast: number } | { atMost: number }>
export type Row = Readonly<{
  section: string
  what: string
  inFlight: number | null
  ours: string
  peer: string
  ratio: number | null
  target: Target | null
  note?: string
}>

export const reached = (row: Row): boolean | null => {
  if (row.target === null || row.ratio === null) return null
  return 'atLeast' in row.target ? row.ratio >= row.target.atLeast : row.ratio <= row.target.atMost
}

const targetText = (target: Target | null): string => {
  if (target === null) return ''
  return 'atLeast' in target ? `≥ ${target.atLeast}` : `≤ ${target.atMost}`
}
const verdict = (row: Row): string => {
  const answer = reached(row)
  if (answer === null) return row.target === null ? '' : 'not measured'
  return answer ? 'reached' : 'NOT reached'
}

export const rateText = (perSecond: number): string =>
  `${Math.round(perSecond).toLocaleString('en-US').replaceAll(',', ' ')}/s`
export const msText = (ms: number): string => `${ms.toFixed(ms < 10 ? 2 : 1)} ms`
export const mebibytesText = (bytes: number): string => `${(bytes / 1_048_576).toFixed(1)} MiB`

export const formatTable = (header: readonly string[], lines: readonly (readonly string[])[]): string => {
  const widths = header.map((name, column) => Math.max(name.length, ...lines.map((line) => line[column]?.length ?? 0)))
  const text = (line: readonly string[]): string =>
    line
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd()
  return [text(header), widths.map((width) => '-'.repeat(width)).join('  '), ...lines.map(text)].join('\n')
}

export const formatRows = (rows: readonly Row[]): string =>
  formatTable(
    ['what', 'in flight', 'ours', 'floor or peer', 'ratio', 'target', 'verdict', 'note'],
    rows.map((row) => [
      row.what,
      row.inFlight === null ? '' : String(row.inFlight),
      row.ours,
      row.peer,
      row.ratio === null ? '' : row.ratio.toFixed(2),
      targetText(row.target),
      verdict(row),
      row.note ?? '',
    ]),
  )
