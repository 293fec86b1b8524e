import { textTable } from './terminal.ts'

type Table = readonly (readonly string[])[]

type Fit = Readonly<{
  /** That of the terminal; undefined if output goes elsewhere, where nothing is left out. */
  width: number | undefined
  /** What the columns are called where they are named as not shown; by default as their headings. */
  names?: readonly string[]
  /** The column that gives way to the others, by being cut. */
  yields?: number
}>

/** A column is cut to what is left of the line, unless that is less than this. */
const CUT_CHARACTERS_MIN = 12

/** A table with headings, in lines that the terminal does not break. Columns that do not fit are named below it. */
export function fittedTable(table: Table, { width, names = table[0]!, yields }: Fit): string {
  if (width === undefined) return textTable(table)
  const displayed = fitted(yields === undefined ? table : yielded(table, width, yields), width)
  const hidden = names.slice(displayed[0]!.length)
  const more = hidden.length === 0 ? '' : `Not shown: ${hidden.join(', ')}. Use --json for everything.\n`
  return `${textTable(displayed)}${more}`
}

const widthOf = (table: Table, index: number): number => Math.max(...table.map((row) => row[index]?.length ?? 0))

/** One column is cut so far that all fit, as far as it may be cut. */
function yielded(table: Table, width: number, index: number): Table {
  const widths = table[0]!.map((_, other) => (other === index ? 0 : widthOf(table, other)))
  const left = width - widths.reduce((sum, one) => sum + one + 2, -2)
  return table.map((row) => row.with(index, cut(row[index]!, Math.max(CUT_CHARACTERS_MIN, left))))
}

/** The columns that fit, and at least one; the last of them may be cut. */
function fitted(table: Table, width: number): Table {
  let used = 0
  for (let index = 0; index < table[0]!.length; index++) {
    const left = width - used - (index === 0 ? 0 : 2)
    const widest = widthOf(table, index)
    if (widest > left && index > 0) {
      if (left < Math.max(CUT_CHARACTERS_MIN, table[0]![index]!.length)) return table.map((row) => row.slice(0, index))
      return table.map((row) => [...row.slice(0, index), cut(row[index]!, left)])
    }
    used = width - left + widest
  }
  return table
}

export function cut(line: string, max: number): string {
  const characters = [...line]
  return characters.length > max ? `${characters.slice(0, max - 1).join('')}…` : line
}

/** A table whose last column continues, between words, in the next lines of the terminal, below where it begins. */
export function wrappedTable(table: Table, width: number | undefined, indent = ''): string {
  if (width === undefined) return textTable(table, indent)
  const begin = table[0]!.length - 1
  let left = width - indent.length
  for (let index = 0; index < begin; index++) left -= widthOf(table, index) + 2
  if (left < WRAPPED_CHARACTERS_MIN) return textTable(table, indent)
  const rows = table.flatMap((row) => {
    const [first = '', ...rest] = wrapped(row[begin] ?? '', left)
    return [[...row.slice(0, begin), first], ...rest.map((line) => [...Array<string>(begin).fill(''), line])]
  })
  return textTable(rows, indent)
}

/** In a narrower column, words would stand alone in their lines. */
const WRAPPED_CHARACTERS_MIN = 24

/** A word that is too long for a line has a line of its own, whole: it may be an address or a command to copy. */
export function wrapped(text: string, width: number): string[] {
  const lines: string[] = []
  for (const word of text.split(/\s+/)) {
    const last = lines.at(-1)
    if (last === undefined || last.length + 1 + word.length > width) lines.push(word)
    else lines[lines.length - 1] = `${last} ${word}`
  }
  return lines
}
