import { AppError } from '../../contract/app-error.ts'
import { identityOf, type Principal, type TenantId } from '../../contract/principal.ts'
import type { CallTool } from './call-tool.ts'

/** Who calls, for as long as they may. */
export type Presence = Readonly<{
  /** Somebody has something open. Answers how to end that. */
  watch(principal: Principal): () => void
  /** Told of an owner who is there no more. Answers how to stop listening. */
  onRevoked(listener: (tenant: TenantId, owner: string) => void): () => void
}>

/** Where keys do not end. */
export const everPresent: Presence = { watch: () => () => {}, onRevoked: () => () => {} }

/** The same calls; those under way are cancelled when the key that made them is revoked or expires. */
export function whileWelcome(callTool: CallTool, { watch, onRevoked }: Presence): CallTool {
  const underWay = new Map<string, Set<AbortController>>()
  const placeOf = (tenant: TenantId, owner: string): string => `${tenant} ${owner}`
  onRevoked((tenant, owner) => {
    for (const controller of underWay.get(placeOf(tenant, owner)) ?? []) controller.abort(removedMeanwhile())
  })

  return async (caller, name, args, options = {}) => {
    const { principal } = caller
    const owner = identityOf(principal)
    if (!owner.startsWith('key:')) return callTool(caller, name, args, options)
    const place = placeOf(principal.tenant, owner)
    const revoked = new AbortController()
    const others = underWay.get(place) ?? new Set()
    underWay.set(place, others.add(revoked))
    const stopWatching = watch(principal)
    const signal = options.signal === undefined ? revoked.signal : AbortSignal.any([options.signal, revoked.signal])
    try {
      return await callTool(caller, name, args, { ...options, signal })
    } finally {
      stopWatching()
      others.delete(revoked)
      if (others.size === 0 && underWay.get(place) === others) underWay.delete(place)
    }
  }
}

const removedMeanwhile = (): AppError =>
  new AppError('ERR_CANCELLED', 'The API key was revoked or has expired while the call was under way.')
