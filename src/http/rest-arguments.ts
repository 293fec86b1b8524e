import { AppError } from '../contract/app-error.ts'
import { unknownName } from './read-query.ts'

/** A request, for the rows of the table. */
export type RestRequest = Readonly<{
  params: Readonly<Record<string, string>>
  query: URLSearchParams
  body: Readonly<Record<string, unknown>>
}>
type Body = RestRequest['body']

/** As a number if it is one; otherwise unchanged, so that the tool reports the error. */
export const numbers = (query: URLSearchParams, ...names: readonly string[]): Record<string, unknown> =>
  Object.fromEntries(
    names.flatMap((name) => {
      const text = query.get(name)
      return text === null ? [] : [[name, /^\d{1,15}$/.test(text) ? Number(text) : text]]
    }),
  )

export const texts = (query: URLSearchParams, ...names: readonly string[]): Record<string, unknown> =>
  Object.fromEntries(names.flatMap((name) => (query.get(name) === null ? [] : [[name, query.get(name)]])))

/** `?force` alone means true; other values stay unchanged, so that the tool reports the error. */
export const flags = (query: URLSearchParams, ...names: readonly string[]): Record<string, unknown> =>
  Object.fromEntries(
    names.flatMap((name) => {
      const text = query.get(name)
      return text === null ? [] : [[name, booleanOf(text) ?? text]]
    }),
  )

export function flagOf(query: URLSearchParams, name: string, otherwise: boolean): boolean {
  const text = query.get(name)
  const value = text === null ? otherwise : booleanOf(text)
  if (value !== undefined) return value
  throw new AppError('ERR_INVALID_INPUT', `${name}: must be true or false.`, { field: name, constraint: 'boolean' })
}

function booleanOf(text: string): boolean | undefined {
  if (text === '' || text === 'true' || text === '1') return true
  return text === 'false' || text === '0' ? false : undefined
}

/** Fields of a body that are passed by name; others are refused, as tools refuse unknown fields. */
export function fieldsOf(body: Body, ...names: readonly string[]): Body {
  for (const name of Object.keys(body)) if (!names.includes(name)) throw unknownName('field', name, names, 'the body')
  return body
}

/** A field that must be a string if present. Null counts as absent. */
export function textOf(body: Body, name: string): string | undefined {
  const value = body[name] ?? undefined
  if (value === undefined || typeof value === 'string') return value
  throw new AppError('ERR_INVALID_INPUT', `'${name}' in the body must be a string.`, {
    field: name,
    constraint: 'text',
  })
}

export function requiredText(body: Body, name: string): string {
  const text = textOf(body, name)
  if (text !== undefined && text !== '') return text
  throw new AppError('ERR_INVALID_INPUT', `Required field '${name}' is missing or empty in the body.`, {
    field: name,
    constraint: 'required',
  })
}

/** One of the words, under the first of the names that is present. */
export function wordOf<Word extends string>(body: Body, names: readonly string[], words: readonly Word[]): Word {
  const value = names.map((name) => body[name]).find((input) => input !== undefined)
  const word = words.find((known) => known === value)
  if (word !== undefined) return word
  const list = `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`
  throw new AppError('ERR_INVALID_INPUT', `${names[0]}: must be ${list}.`, { field: names[0], constraint: list })
}
