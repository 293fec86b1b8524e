/**
 * Where a text stops being JSON: the index of the first invalid character, or the length if the text ends too early. Undefined
 * for JSON. Needs only memory for the nesting of the text.
 */
export function findJsonError(text: string): number | undefined {
  const scan = new Scan(text)
  const closers: string[] = []
  let expected: Expected = 'value'
  for (;;) {
    scan.skipSpace()
    const { at } = scan
    const char = text[at]
    if (expected === 'end-or-next' && closers.length === 0) return char === undefined ? undefined : at
    if (char === undefined) return at
    const next = step(scan, char, expected, closers)
    if (next === undefined) return scan.at
    expected = next
  }
}

type Expected = 'value' | 'value-or-close' | 'key' | 'key-or-close' | 'colon' | 'end-or-next'

/** Takes one token; undefined if it is wrong, with the scan at the error. */
function step(scan: Scan, char: string, expected: Expected, closers: string[]): Expected | undefined {
  const closes = char === closers.at(-1)
  switch (expected) {
    case 'colon':
      return char === ':' ? scan.take('value') : undefined
    case 'end-or-next':
      if (char === ',') return scan.take(closers.at(-1) === '}' ? 'key' : 'value')
      if (!closes) return undefined
      closers.pop()
      return scan.take('end-or-next')
    case 'key-or-close':
    case 'key':
      if (char === '"') return scan.string() ? 'colon' : undefined
      break
    default:
      if (char === '{' || char === '[') {
        closers.push(char === '{' ? '}' : ']')
        return scan.take(char === '{' ? 'key-or-close' : 'value-or-close')
      }
      if (char !== ']' && char !== '}') return scan.scalar(char) ? 'end-or-next' : undefined
  }
  if (!closes || !expected.endsWith('-or-close')) return undefined
  closers.pop()
  return scan.take('end-or-next')
}

class Scan {
  readonly #text: string
  at = 0

  constructor(text: string) {
    this.#text = text
  }

  take(next: Expected): Expected {
    this.at++
    return next
  }

  skipSpace(): void {
    while (isOneOf(' \t\n\r', this.#text[this.at])) this.at++
  }

  scalar(char: string): boolean {
    if (char === '"') return this.string()
    if (char === 't') return this.#word('true')
    if (char === 'f') return this.#word('false')
    if (char === 'n') return this.#word('null')
    return this.#number()
  }

  string(): boolean {
    this.at++
    for (;;) {
      const char = this.#text[this.at]
      if (char === undefined || char < ' ') return false
      this.at++
      if (char === '"') return true
      if (char === '\\' && !this.#escape()) return false
    }
  }

  #escape(): boolean {
    const char = this.#text[this.at]
    if (!isOneOf('"\\/bfnrtu', char)) return false
    this.at++
    if (char !== 'u') return true
    for (const end = this.at + 4; this.at < end; this.at++) {
      if (!isOneOf('0123456789abcdefABCDEF', this.#text[this.at])) return false
    }
    return true
  }

  #word(word: string): boolean {
    for (const letter of word) {
      if (this.#text[this.at] !== letter) return false
      this.at++
    }
    return true
  }

  #number(): boolean {
    if (this.#text[this.at] === '-') this.at++
    if (this.#text[this.at] === '0') this.at++
    else if (!this.#digits()) return false
    if (this.#text[this.at] === '.') {
      this.at++
      if (!this.#digits()) return false
    }
    if (!isOneOf('eE', this.#text[this.at])) return true
    this.at++
    if (isOneOf('+-', this.#text[this.at])) this.at++
    return this.#digits()
  }

  #digits(): boolean {
    const start = this.at
    while (isOneOf('0123456789', this.#text[this.at])) this.at++
    return this.at > start
  }
}

const isOneOf = (characters: string, char: string | undefined): boolean =>
  char !== undefined && characters.includes(char)
