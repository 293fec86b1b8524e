import { AppError } from '../contract/app-error.ts'

/**
 * JSON as editors write it: with comments, trailing commas and a byte order mark. The error names line and column and quotes
 * nothing, because such files contain secrets.
 */
export function parseJsonc(text: string): unknown {
  const plain = blankExtras(text.startsWith('\uFEFF') ? ` ${text.slice(1)}` : text)
  try {
    return JSON.parse(plain)
  } catch {
    const before = plain.slice(0, errorPosition(plain)).split('\n')
    const location = `line ${before.length}, column ${before.at(-1)!.length + 1}`
    throw new AppError('ERR_INVALID_INPUT', `the file is not valid JSON at ${location}`)
  }
}

const TOKEN =
  /\s*(?:("(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*")|(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)|([[\]{},:]))/y

type Expected = 'value' | 'first-value' | 'key' | 'first-key' | 'colon' | 'next' | 'end'

/** The position of the first error, which JSON.parse does not always report. Follows tokens with a stack of open brackets. */
function errorPosition(text: string): number {
  const token = new RegExp(TOKEN)
  const open: string[] = []
  let expected: Expected = 'value'
  for (;;) {
    const from = token.lastIndex
    const match = token.exec(text)
    const after: Expected | undefined = match === null ? undefined : follow(match, expected, open)
    if (after === undefined) return from + /^\s*/.exec(text.slice(from))![0].length
    expected = after
  }
}

/** What may follow this token, or undefined if the token is not allowed here. */
function follow([, string, literal, sign]: RegExpExecArray, expected: Expected, open: string[]): Expected | undefined {
  const afterValue = (): Expected => (open.length === 0 ? 'end' : 'next')
  const wantsValue = expected === 'value' || expected === 'first-value'
  const wantsKey = expected === 'key' || expected === 'first-key'
  if (string !== undefined && wantsKey) return 'colon'
  if (string !== undefined || literal !== undefined) return wantsValue ? afterValue() : undefined
  if (sign === '{' || sign === '[') {
    if (!wantsValue) return undefined
    open.push(sign)
    return sign === '{' ? 'first-key' : 'first-value'
  }
  if (sign === ':') return expected === 'colon' ? 'value' : undefined
  if (sign === ',' && expected === 'next') return open.at(-1) === '{' ? 'key' : 'value'
  const closes = sign === '}' ? '{' : '['
  const mayClose = expected === 'next' || expected === (sign === '}' ? 'first-key' : 'first-value')
  if (sign === ',' || !mayClose || open.at(-1) !== closes) return undefined
  open.pop()
  return afterValue()
}

/** Removed text is replaced by spaces, so that every other character keeps its position. */
function blankExtras(text: string): string {
  const pieces: string[] = []
  let copied = 0
  const blank = (from: number, to: number): void => {
    pieces.push(text.slice(copied, from), text.slice(from, to).replace(/[^\r\n]/g, ' '))
    copied = to
  }
  for (let at = 0; at < text.length; ) {
    const end = tokenEnd(text, at)
    if (isComment(text, at)) blank(at, end)
    else if (text[at] === ',' && closesNext(text, end)) blank(at, end)
    at = end
  }
  pieces.push(text.slice(copied))
  return pieces.join('')
}

const isComment = (text: string, at: number): boolean => text.startsWith('//', at) || text.startsWith('/*', at)

/** Where the string, the comment or the single character that begins at `at` ends. */
function tokenEnd(text: string, at: number): number {
  if (text[at] === '"') {
    let end = at + 1
    while (end < text.length && text[end] !== '"' && text[end] !== '\n') end += text[end] === '\\' ? 2 : 1
    return end + 1
  }
  if (!isComment(text, at)) return at + 1
  const isLine = text[at + 1] === '/'
  const end = text.indexOf(isLine ? '\n' : '*/', at + 2)
  if (end < 0) return text.length
  return isLine ? end : end + 2
}

/** Whether a bracket closes here, after blanks and comments. */
function closesNext(text: string, from: number): boolean {
  let at = from
  while (at < text.length && (isComment(text, at) || /\s/.test(text[at]!))) at = tokenEnd(text, at)
  return text[at] === ']' || text[at] === '}'
}
