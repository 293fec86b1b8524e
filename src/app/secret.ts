import { inspect } from 'node:util'

const REDACTED = '[redacted]'

/**
 * A value that no printer shows: text, JSON and inspection all give `[redacted]`. Only `reveal` returns it, so that every use can
 * be found by that word.
 */
export class Secret {
  readonly #value: string

  constructor(value: string) {
    this.#value = value
  }

  reveal(): string {
    return this.#value
  }

  toString(): string {
    return REDACTED
  }

  toJSON(): string {
    return REDACTED
  }

  [inspect.custom](): string {
    return REDACTED
  }
}

/** A URL without user, password and query. */
export function redactUrl(text: string): string {
  let url: URL
  try {
    url = new URL(text)
  } catch {
    return REDACTED
  }
  const credentials = url.username === '' && url.password === '' ? '' : `${REDACTED}@`
  const query = url.search === '' ? '' : `?${REDACTED}`
  return `${url.protocol}//${credentials}${url.host}${url.pathname}${query}`
}
