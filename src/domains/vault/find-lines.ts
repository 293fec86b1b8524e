import { limits } from '../../contract/limits.ts'
import type { TimeSlicer } from '../../kernel/time-slicer.ts'
import { compilePattern } from './pattern.ts'
import { invalid } from './rules.ts'

/** A matching line, with its number from 1 and the lines around it. Long lines are cut around the match. */
export type FoundLine = Readonly<{ line_number: number; line: string; context: string }>

/** The matching lines of one text, and the number of lines that were too long to be searched whole. */
type FindLines = (
  text: string,
  countMax: number,
  slicer: TimeSlicer,
) => Promise<Readonly<{ found: FoundLine[]; longLines: number }>>

const CONTEXT_LINES = 2
const DISPLAYED_CHARACTERS_MAX = 400
const DISPLAYED_BEFORE_MATCH = 100

/** Where in a line the first match begins; -1 for none. */
type MatchLine = (line: string) => number

/** Searches line by line for a case-sensitive text, or for a regular expression. */
export function lineFinder(query: string, isPattern: boolean): FindLines {
  if (!isPattern && /[\r\n]/.test(query)) {
    throw invalid('query', 'must not contain a line break: lines are searched one by one')
  }
  const pattern = isPattern ? compilePattern(query, 'query') : undefined
  const seenMax =
    pattern === undefined
      ? Number.POSITIVE_INFINITY
      : Math.min(limits.vaultPatternLineCharsMax, Math.floor(limits.vaultPatternLineWorkMax / pattern.programSize()))
  const match: MatchLine = (line) => {
    if (pattern === undefined) return line.indexOf(query)
    const matcher = pattern.matcher(line)
    return matcher.find() ? matcher.start() : -1
  }
  return async (text, countMax, slicer) => {
    const found: FoundLine[] = []
    let longLines = 0
    if (!isPattern && !text.includes(query)) return { found, longLines }
    const lines = text.split(/\r?\n/)
    if (lines.at(-1) === '') lines.pop()
    for (const [index, line] of lines.entries()) {
      if (found.length >= countMax) break
      if (line.length > seenMax) longLines++
      const at = match(line.length > seenMax ? line.slice(0, seenMax) : line)
      if (at >= 0) found.push({ line_number: index + 1, line: cut(line, at), context: contextOf(lines, index) })
      const pause = slicer.pause()
      if (pause !== undefined) await pause
    }
    return { found, longLines }
  }
}

const contextOf = (lines: readonly string[], index: number): string =>
  lines
    .slice(Math.max(0, index - CONTEXT_LINES), index + CONTEXT_LINES + 1)
    .map((line) => cut(line, 0))
    .join('\n')

function cut(line: string, at: number): string {
  if (line.length <= DISPLAYED_CHARACTERS_MAX) return line
  const start = Math.max(0, Math.min(at - DISPLAYED_BEFORE_MATCH, line.length - DISPLAYED_CHARACTERS_MAX))
  const end = start + DISPLAYED_CHARACTERS_MAX
  const displayed = line.slice(start, end).toWellFormed()
  return `${start > 0 ? '…' : ''}${displayed}${end < line.length ? '…' : ''}`
}
