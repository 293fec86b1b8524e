import { limits } from '../../contract/limits.ts'
import { createKeyCache, type KnownKey } from './key-cache.ts'
import { hashMatches, hashToken } from './token.ts'

/** What every kind of key has, as it is stored. */
export type StoredKey = Readonly<{ id: string; hash: string; lastUsedAtMs: number | null }>

type KeyKind<Key extends StoredKey, Holder> = Readonly<{
  /** The public prefix, or undefined for what is not written like a key of the kind. */
  prefixOf(token: string): string | undefined
  findByPrefix(prefix: string): Promise<Key | undefined>
  isLive(key: Key, nowMs: number): boolean
  /** Who comes with it; undefined for one whose owner is gone. */
  holderOf(key: Key): Promise<Holder | undefined>
  /** Told of a key's use, at most once a minute per key. */
  noteUse(key: Key, atMs: number): void
}>

export type KeyAuthenticator<Holder> = Readonly<{
  /** Undefined for everything that is not a live key of the kind. */
  authenticate(token: string, nowMs: number): Promise<Holder | undefined>
  /** For a key that is being revoked or replaced. */
  forget(keyId: string, nowMs: number): void
  /** Looks everybody up anew. */
  forgetAll(): void
}>

/** Finds out who comes with a key. Callers that arrive together with one key share one look-up. */
export function createKeyAuthenticator<Key extends StoredKey, Holder>(
  kind: KeyKind<Key, Holder>,
): KeyAuthenticator<Holder> {
  const cache = createKeyCache<Key, Holder>()
  const lookups = new Map<string, Promise<KnownKey<Key, Holder> | undefined>>()
  const notedAtMs = new Map<string, number>()

  const lookUp = async (prefix: string, hash: Buffer, hashHex: string, nowMs: number) => {
    const key = await kind.findByPrefix(prefix)
    if (key === undefined || !hashMatches(key.hash, hash) || !kind.isLive(key, nowMs)) return undefined
    const holder = await kind.holderOf(key)
    if (holder === undefined) return undefined
    const known = { key, holder }
    cache.put(hashHex, known, nowMs)
    return known
  }

  const noteOnceAMinute = (key: Key, nowMs: number): void => {
    const { id, lastUsedAtMs } = key
    const latestMs = Math.max(lastUsedAtMs ?? Number.NEGATIVE_INFINITY, notedAtMs.get(id) ?? Number.NEGATIVE_INFINITY)
    if (nowMs - latestMs < limits.apiKeyTouchMs) return
    notedAtMs.delete(id)
    if (notedAtMs.size >= limits.apiKeyCacheMax) notedAtMs.delete(notedAtMs.keys().next().value!)
    notedAtMs.set(id, nowMs)
    kind.noteUse(key, nowMs)
  }

  return {
    async authenticate(token, nowMs) {
      const prefix = kind.prefixOf(token)
      if (prefix === undefined) return undefined
      const hash = hashToken(token)
      const hashHex = hash.toString('hex')
      let known = cache.get(hashHex, nowMs)
      if (known === undefined) {
        let lookup = lookups.get(hashHex)
        if (lookup === undefined) {
          lookup = lookUp(prefix, hash, hashHex, nowMs).finally(() => {
            if (lookups.get(hashHex) === lookup) lookups.delete(hashHex)
          })
          lookups.set(hashHex, lookup)
        }
        known = await lookup
      }
      if (known === undefined || !kind.isLive(known.key, nowMs)) return undefined
      noteOnceAMinute(known.key, nowMs)
      return known.holder
    },
    forget(keyId, nowMs) {
      cache.forget(keyId, nowMs)
      lookups.clear()
    },
    forgetAll() {
      cache.clear()
      lookups.clear()
    },
  }
}
