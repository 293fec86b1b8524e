import type { Database } from './database.ts'
import type { Principal } from './principal.ts'

/** Answers at once what is known, and otherwise what `make` reads from the store. */
type StoreMemo<T> = (principal: Principal, key: string, make: () => Promise<T>) => T | Promise<T>

const KEYS_MAX = 256

/**
 * Keeps for each principal what was read from the store for it, for as long as nothing but the log has changed in the store. The
 * next question after any other commit is asked of the store again, so nobody is judged by rights that are gone. Where the
 * store cannot tell, everything is asked every time. Failures are not kept.
 */
export function createStoreMemo<T>(database: Pick<Database, 'dataVersion'>): StoreMemo<T> {
  let version: number | undefined
  let known = new WeakMap<Principal, Map<string, T>>()

  async function ask(principal: Principal, key: string, make: () => Promise<T>): Promise<T> {
    const before = database.dataVersion()
    const made = await make()
    // What was read while something changed may be half of the old and half of the new.
    if (before === undefined || database.dataVersion() !== before || version !== before) return made
    const ofPrincipal = known.get(principal) ?? new Map<string, T>()
    if (ofPrincipal.size >= KEYS_MAX) ofPrincipal.clear()
    known.set(principal, ofPrincipal.set(key, made))
    return made
  }

  return (principal, key, make) => {
    const current = database.dataVersion()
    if (current === undefined) return make()
    if (current !== version) {
      known = new WeakMap()
      version = current
    }
    const ofPrincipal = known.get(principal)
    return ofPrincipal?.has(key) === true ? (ofPrincipal.get(key) as T) : ask(principal, key, make)
  }
}
