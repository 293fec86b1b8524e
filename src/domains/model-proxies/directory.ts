import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import type { Principal } from '../../contract/principal.ts'
import type { ReadTx } from '../../contract/tx.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { ProfileService } from '../profiles/service.ts'

/** The proxy by which a request is judged and counted. */
type FoundProxy = Readonly<{ id: string; name: string; isUntrusted: boolean }>

export type ModelProxyDirectory = Readonly<{
  /**
   * The proxy at an address, by slug or id. Without a name it is the one called `default`, and undefined if there is none. Throws
   * ERR_NOT_FOUND for a name that the caller does not see. Answers repeated lookups from a cache.
   */
  find(principal: Principal, name: string | undefined): FoundProxy | undefined | Promise<FoundProxy | undefined>
  /** Clears the cache. */
  forget(): void
}>

type DirectoryDeps = Readonly<{ read: ReadTx; sharing: Pick<ProfileService, 'find'>; clock: Clock }>

const DEFAULT = 'default'
type Known = Readonly<{ proxy: FoundProxy | undefined; untilMs: number }>

export function createModelProxyDirectory({ read, sharing, clock }: DirectoryDeps): ModelProxyDirectory {
  /** Keyed by the principal object, which is replaced when the caller's rights change. */
  let known = new WeakMap<Principal, Map<string, Known>>()

  async function lookUp(principal: Principal, name: string, seen: Map<string, Known>): Promise<FoundProxy | undefined> {
    const found = await sharing.find(read, principal, 'llm_proxy', name)
    const proxy = found && { id: found.id, name: found.slug, isUntrusted: found.contextUntrusted }
    if (seen.size >= limits.modelProxyCacheMax) seen.clear()
    seen.set(name, { proxy, untilMs: clock.monotonicMs() + limits.modelProxyCacheMs })
    return proxy
  }

  return {
    forget() {
      known = new WeakMap()
    },
    find(principal, name = DEFAULT) {
      let seen = known.get(principal)
      if (seen === undefined) {
        seen = new Map()
        known.set(principal, seen)
      }
      const before = seen.get(name)
      if (before !== undefined && before.untilMs > clock.monotonicMs()) return required(before.proxy, name)
      return lookUp(principal, name, seen).then((proxy) => required(proxy, name))
    },
  }
}

function required(proxy: FoundProxy | undefined, name: string): FoundProxy | undefined {
  if (proxy !== undefined || name === DEFAULT) return proxy
  const message =
    'There is no model proxy at this address that you can see. list_llm_proxies lists them. If you mean a provider itself, the base address of its package ends with /v1/PROVIDER: the package adds the rest.'
  throw new AppError('ERR_NOT_FOUND', message, { proxy: name.slice(0, limits.profileNameCharsMax).toWellFormed() })
}
