import { limits } from '../../contract/limits.ts'
import { identityOf } from '../../contract/principal.ts'
import type { ContextKey } from '../../contract/trust.ts'
import type { Caller } from '../ports.ts'

/** An answer that the provider stores, and to which a later request may refer by its id instead of repeating it. */
export type ResponseLink = Readonly<{
  contexts: readonly ContextKey[]
  /** It followed a history that nobody here saw pass. */
  isUnseen: boolean
  /** Calls in it that were refused: the provider has them, and waits for what they answered. */
  refused: readonly Readonly<{ callId: string; text: string }>[]
}>

export type ResponseChains = Readonly<{
  find(caller: Caller, responseId: string): ResponseLink | undefined
  add(caller: Caller, responseId: string, link: ResponseLink): void
}>

/** In memory, the oldest making room: who refers to what is not known here has a history that nobody judged. */
export function createResponseChains(): ResponseChains {
  const known = new Map<string, ResponseLink>()
  const keyOf = ({ principal }: Caller, id: string): string => `${principal.tenant}\n${identityOf(principal)}\n${id}`
  return {
    find: (caller, id) => known.get(keyOf(caller, id)),
    add(caller, id, link) {
      if (known.size >= limits.responseChainsMax) known.delete(known.keys().next().value!)
      known.set(keyOf(caller, id), link)
    },
  }
}
