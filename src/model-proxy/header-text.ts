/**
 * The values of headers that have the text of a caller, an operator or a provider. A header has printable ASCII only, and a character that
 * it may not have would make the whole answer fail.
 */
export const headerText = (name: string): string =>
  /^[\x20-\x7e]*$/.test(name) ? name : encodeURIComponent(name.toWellFormed())

const NAME_CHARS_MAX = 100
const NAMES_MAX = 20

/** Separated by commas, which the names then do not contain. What is too long is shortened. */
export function headerList(names: readonly string[]): string {
  const told = names.slice(0, NAMES_MAX).map((name) => {
    const short = name.slice(0, NAME_CHARS_MAX)
    return /^[\x21-\x2b\x2d-\x7e]*$/.test(short) ? short : encodeURIComponent(short.toWellFormed())
  })
  return names.length > told.length ? [...told, '...'].join(', ') : told.join(', ')
}
