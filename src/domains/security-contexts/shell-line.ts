/**
 * One word of a shell line. `text` is its value for the shell; undefined if that is known only at run time, because the
 * word has a variable, a pattern or a tilde in it.
 */
type ShellWord = Readonly<{ text: string | undefined }>
type SimpleCommand = Readonly<{ words: readonly ShellWord[] }>
/**
 * A file that the shell itself opens for a command: `path` is as written, undefined if it is known only at run time.
 */
export type Redirection = Readonly<{ path: string | undefined; access: 'read' | 'write' }>
type ReadLine =
  | Readonly<{ commands: readonly SimpleCommand[]; redirections: readonly Redirection[] }>
  /** Why its commands cannot be known before it runs. */
  | Readonly<{ undecidable: string }>

/** Words that begin something other than a command. */
const reserved = new Set(
  '! { } [[ ]] case coproc do done elif else esac fi for function if in select then time until while'.split(' '),
)
const ASSIGNMENT = /^[A-Za-z_][A-Za-z0-9_]*(\[[^\]]*\])?\+?=/
/** Unquoted, these make a word depend on files, variables or the shell that reads it. */
const EXPANDS = /[*?[\]~{}]/

class Undecidable extends Error {}
const refuse = (reason: string): never => {
  throw new Undecidable(reason)
}

/**
 * Parses a line for `sh -c` into all commands that it runs and all files that the shell opens for them. Unsupported syntax is
 * never guessed: command substitution, here-documents, assignments, functions and compound commands make the line undecidable. If
 * shells differ, whatever one of them would run counts.
 */
export function readShellLine(line: string): ReadLine {
  try {
    return new Reader(line).read()
  } catch (error) {
    if (error instanceof Undecidable) return { undecidable: error.message }
    throw error
  }
}

type Word = { text: string; isKnown: boolean; isQuoted: boolean; raw: string }

class Reader {
  readonly #line: string
  #at = 0
  #words: Word[] = []
  /** If set, the next word is the target of that redirection, not a part of the command. */
  #operator: string | undefined
  #depth = 0
  readonly #commands: SimpleCommand[] = []
  readonly #redirections: Redirection[] = []

  constructor(line: string) {
    this.#line = line
  }

  read(): Extract<ReadLine, { commands: unknown }> {
    while (this.#at < this.#line.length) this.#step()
    this.#endCommand()
    if (this.#depth !== 0) refuse('its parentheses do not match')
    if (this.#commands.length === 0) refuse('it has no command')
    return { commands: this.#commands, redirections: this.#redirections }
  }

  #step(): void {
    const rest = this.#line.slice(this.#at, this.#at + 2)
    const char = rest[0]!
    if (rest === '\\\n') this.#at += 2
    else if (char === ' ' || char === '\t') this.#at++
    else if (char === '#') this.#skipComment()
    else if ('\n;&|'.includes(char)) this.#separator(rest)
    else if (char === '(' || char === ')') this.#parenthesis(char)
    else if (char === '<' || char === '>') this.#redirection()
    else this.#word()
  }

  #skipComment(): void {
    const end = this.#line.indexOf('\n', this.#at)
    this.#at = end < 0 ? this.#line.length : end
  }

  #separator(rest: string): void {
    if (rest === ';;' || rest === ';&') refuse('it has a case command')
    this.#at++
    this.#endCommand()
  }

  #parenthesis(char: string): void {
    if (char === '(' && (this.#words.length > 0 || this.#operator !== undefined))
      refuse('it defines a function or a list')
    this.#depth += char === '(' ? 1 : -1
    if (this.#depth < 0) refuse('its parentheses do not match')
    this.#at++
    this.#endCommand()
  }

  #redirection(): void {
    const [operator] = /^[<>][<>&|]?/.exec(this.#line.slice(this.#at))!
    if (operator === '<<') refuse('it has a here-document')
    if (this.#line[this.#at + 1] === '(') refuse('it substitutes a process')
    if (this.#operator !== undefined) refuse('a redirection leads nowhere')
    const last = this.#words.at(-1)
    // Digits right before it are a file descriptor, not a word.
    if (last !== undefined && /^\d+$/.test(last.raw) && /\d/.test(this.#line[this.#at - 1]!)) this.#words.pop()
    this.#at += operator.length
    this.#operator = operator
  }

  #word(): void {
    const start = this.#at
    const word: Word = { text: '', isKnown: true, isQuoted: false, raw: '' }
    while (this.#at < this.#line.length && !' \t\n;&|()<>'.includes(this.#line[this.#at]!)) this.#part(word)
    // The shell removes these before it parses anything.
    word.raw = this.#line.slice(start, this.#at).replaceAll('\\\n', '')
    if (this.#operator === undefined) this.#words.push(word)
    else this.#target(this.#operator, word)
  }

  #target(operator: string, { text, isKnown }: Word): void {
    this.#operator = undefined
    // A file descriptor, or none: nothing is opened.
    if (operator.endsWith('&') && isKnown && /^(?:\d+-?|-)$/.test(text)) return
    const access = operator.startsWith('<') && operator !== '<>' ? 'read' : 'write'
    this.#redirections.push({ path: isKnown && text !== '' ? text : undefined, access })
  }

  #part(word: Word): void {
    const char = this.#line[this.#at]!
    if (char === "'") this.#single(word)
    else if (char === '"') this.#double(word)
    else if (char === '\\') this.#escaped(word)
    else if (char === '$' || char === '`') this.#expansion(word, char, false)
    else {
      if (EXPANDS.test(char)) word.isKnown = false
      word.text += char
      this.#at++
    }
  }

  #single(word: Word): void {
    const end = this.#line.indexOf("'", this.#at + 1)
    if (end < 0) refuse('a quotation mark is not closed')
    word.text += this.#line.slice(this.#at + 1, end)
    word.isQuoted = true
    this.#at = end + 1
  }

  #double(word: Word): void {
    word.isQuoted = true
    this.#at++
    for (;;) {
      const char = this.#line[this.#at]
      if (char === undefined) refuse('a quotation mark is not closed')
      else if (char === '"') break
      else if (char === '$' || char === '`') this.#expansion(word, char, true)
      else if (char === '\\' && '$`"\\\n'.includes(this.#line[this.#at + 1] ?? ' ')) this.#escaped(word)
      else {
        word.text += char
        this.#at++
      }
    }
    this.#at++
  }

  #escaped(word: Word): void {
    const next = this.#line[this.#at + 1]
    if (next === undefined) refuse('it ends with a backslash')
    else if (next !== '\n') {
      word.text += next
      word.isQuoted = true
    }
    this.#at += 2
  }

  #expansion(word: Word, char: string, isInQuotes: boolean): void {
    const next = this.#afterContinuation(this.#at + 1)
    if (char === '`' || next === '(') refuse('it substitutes a command')
    if (next === '{') refuse('it expands a variable in braces')
    if (!isInQuotes && (next === "'" || next === '"')) refuse('it has a quotation that shells read differently')
    if (/[A-Za-z0-9_@*#?$![-]/.test(next)) word.isKnown = false
    word.text += char
    this.#at++
  }

  /** The shell joins lines before it interprets a dollar sign, within quotation marks too. */
  #afterContinuation(from: number): string {
    let at = from
    while (this.#line.startsWith('\\\n', at)) at += 2
    return this.#line[at] ?? ''
  }

  #endCommand(): void {
    if (this.#operator !== undefined) refuse('a redirection leads nowhere')
    const words = this.#words
    this.#words = []
    const first = words[0]
    if (first === undefined) return
    if (ASSIGNMENT.test(first.raw)) refuse('it sets a variable')
    if (!first.isQuoted && reserved.has(first.raw)) refuse(`it has the word ${first.raw}, which is not a command`)
    this.#commands.push({ words: words.map(({ text, isKnown }) => ({ text: isKnown ? text : undefined })) })
  }
}
