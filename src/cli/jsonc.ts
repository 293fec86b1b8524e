import { AppError } from '../contract/app-error.ts'

/**
 * JSON as editors write it: with comments, trailing commas and a byte order mark. The error names line and column and
 * quotes nothing, because such files hold secrets.
 */
export function parseJsonc(text: string): unknown {
  const plain = blankExtras(text.startsWith('\uFEFF') ? ` ${text.slice(1)}` : text)
  try {
    return JSON.parse(plain)
  } catch (error) {
    throw new AppError('ERR_INVALID_INPUT', `the file is not valid JSON${placeOf(error, plain)}`)
  }
}

function placeOf(error: unknown, text: string): string {
  const position = /at position (\d+)/.exec((error as Error).message)?.[1]
  const before = text.slice(0, position === undefined ? text.length : Number(position)).split('\n')
  return ` at line ${before.length}, column ${before.at(-1)!.length + 1}`
}

/** Blanks take the place of what is removed, so that every other character keeps its position. */
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
