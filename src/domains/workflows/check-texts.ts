import { type ShellRisk, shellRisksOf } from '../templating/shell-lines.ts'
import { parseTemplate } from '../templating/templates.ts'
import { parseExpression } from './expressions.ts'
import type { Fields } from './read-fields.ts'

/** A text that would fail at run time is refused when it is registered. */
export function checkTemplate(fields: Fields, key: string, text: string | null | undefined): void {
  if (text === null || text === undefined || !text.includes('{{')) return
  const problem = parseTemplate(text).problem
  if (problem !== null) fields.error(key, `is not a template: ${problem}`)
}

export function checkTemplates(fields: Fields, key: string, texts: Readonly<Record<string, string>>): void {
  for (const [name, text] of Object.entries(texts)) checkTemplate(fields, `${key}.${name.slice(0, 64)}`, text)
}

/** A value can come from an agent or from whoever started the run; in a shell line it must not be more than a word. */
export function warnOfShellLine(fields: Fields, key: string, text: string): void {
  for (const { kind, expression } of shellRisksOf(text).slice(0, SHELL_WARNINGS_MAX)) {
    fields.warn(key, shellAdvice[kind](expression))
  }
}

const shellAdvice: Readonly<Record<ShellRisk['kind'], (expression: string) => string>> = {
  raw: (expression) =>
    `{{${expression}}} is put into a shell line as it is, so its value can add commands; write {{shell ${expression}}}, or give it through env and write "$NAME"`,
  quoted: (expression) =>
    `{{shell ${expression}}} stands inside quotes, which undo its own, so its value can add commands; take the quotes around it away`,
  whole: (expression) =>
    `{{${expression}}} is the whole command line, so whoever gives its value says what runs in the workspace; write the command here, with values in env, unless that is what you want`,
}

const SHELL_WARNINGS_MAX = 5
const shells = /^(?:.*\/)?(?:sh|bash|dash|ash|ksh|zsh)$/

/** Of the words of a command those that a shell reads as a script. */
export function warnOfShellWords(fields: Fields, key: string, words: readonly string[], isLine: boolean): void {
  const option = shells.test(words[0] ?? '') ? words.findIndex((word) => /^-[a-z]*c[a-z]*$/.test(word)) : -1
  const scripts = isLine ? [words.join(' ')] : option < 0 ? [] : words.slice(option + 1, option + 2)
  for (const script of scripts) warnOfShellLine(fields, key, script)
}

export function checkExpression(fields: Fields, key: string, text: string): void {
  const problem = parseExpression(text).problem
  if (problem !== null) fields.error(key, `is not an expression: ${problem}`)
}
