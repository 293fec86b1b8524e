import { AppError } from '../contract/app-error.ts'
import { nearestName } from '../kernel/nearest-name.ts'
import { displayed } from '../tools/runtime/validate-arguments.ts'

/** Query parameters that record which names were read: unread ones are refused, as tools refuse unknown fields. */
export class ReadQuery extends URLSearchParams {
  readonly #known = new Set<string>()

  constructor(url: string) {
    const start = url.indexOf('?')
    super(start === -1 ? '' : url.slice(start + 1))
  }

  override get(name: string): string | null {
    this.#known.add(name)
    return super.get(name)
  }

  override has(name: string): boolean {
    this.#known.add(name)
    return super.has(name)
  }

  requireAllRead(): void {
    for (const name of this.keys())
      if (!this.#known.has(name)) throw unknownName('query parameter', name, [...this.#known], 'the address')
  }
}

export function unknownName(what: string, name: string, accepted: readonly string[], where: string): AppError {
  const field = displayed(name)
  const nearest = nearestName(name, accepted)
  const hint = nearest === undefined ? '' : ` Did you mean '${nearest}'?`
  const list = accepted.length === 0 ? 'none is accepted' : `accepted: ${accepted.join(', ')}`
  return new AppError('ERR_INVALID_INPUT', `Unknown ${what} '${field}' in ${where}.${hint} (${list})`, {
    field,
    constraint: `unknown ${what}`,
    accepted,
    ...(nearest === undefined ? {} : { nearest }),
  })
}
