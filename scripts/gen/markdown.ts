/** The few pieces of Markdown that the reference is made of. */
const generatedNotice = '<!-- Written by `npm run gen`. Do not edit: change the source it is made from. -->'

export const page = (...blocks: readonly (string | readonly string[])[]): string =>
  `${[generatedNotice, ...blocks.flat()].join('\n\n')}\n`

export const code = (text: string): string => `\`${text}\``

/** The anchor that a heading made of `code(name)` gets. */
export const anchor = (name: string): string => `#${name.toLowerCase().replaceAll(/[^a-z0-9_ -]/g, '')}`

const cell = (text: string): string => text.replaceAll('|', '\\|').replaceAll('\n', ' ')

export function table(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.map(cell).join(' | ')} |`
  return [line(header), line(header.map(() => '---')), ...rows.map(line)].join('\n')
}
