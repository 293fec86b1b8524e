import type { Database } from './database.ts'
import type { Principal } from './principal.ts'

/** Answers at once from memory, or with what `make` reads from the store. */
type StoreMemo<T> = (principal: Principal, key: string, make: () => Promise<T>) => T | Promise<T>

const KEYS_MAX = 256

/**
 * Caches for each principal what was read from the store, until something other than the log changes there. After any other
 * commit the store is asked again, so no caller is judged by outdated rights. If the store cannot tell, nothing is cached.
 * Failures are not cached.
 */
export function createStoreMemo<T>(database: Pick<Database, 'dataVersion'>): StoreMemo<T> {
  let version: number | undefined
  let known = new WeakMap<Principal, Map<string, T>>()

  async function ask(principal: Principal, key: string, make: () => Promise<T>): Promise<T> {
    const before = database.dataVersion()
    const made = await make()
    // A read that overlaps a change may mix old and new values.
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
