import { parseTemplate } from '../texts/templates.ts'
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

export function checkExpression(fields: Fields, key: string, text: string): void {
  const problem = parseExpression(text).problem
  if (problem !== null) fields.error(key, `is not an expression: ${problem}`)
}
