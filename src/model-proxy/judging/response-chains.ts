import { limits } from '../../contract/limits.ts'
import { identityOf } from '../../contract/principal.ts'
import type { ContextKey } from '../../contract/trust.ts'
import { sha256Hex } from '../../kernel/hash.ts'
import type { Caller } from '../ports.ts'
import { textOf } from '../protocols/protocol.ts'
import { listOf } from './chat-format.ts'
import type { CallJudge, Fields, HistoryResult, JudgedFormat, ModelCall, MutableFields } from './ports.ts'

/** What an answer contains, as it is judged. */
export type AnswerParts = Readonly<{
  /** Refused calls: the provider has them, and waits for their results. */
  refused: { callId: string; text: string }[]
  /** Calls that the program may answer, by their id. */
  calls: Map<string, ModelCall>
  /** Tools that the provider ran: the model has read their results. */
  ran: Set<string>
  /** Its items by id; with a text if the program saw that in place of the item. */
  items: Map<string, string | undefined>
  allow(call: ModelCall): void
  wrote: CallJudge['wrote']
}>

/** An answer that the provider stores, and to which a later request may refer by an id instead of repeating it. */
export type ResponseLink = Pick<AnswerParts, 'refused' | 'calls' | 'ran' | 'items'> &
  Readonly<{
    contexts: readonly ContextKey[]
    /** It followed a history that never passed through here. */
    isUnseen: boolean
  }>

/** Everything that a request refers to, as far as it is known. */
export type ReferredAnswers = Readonly<{
  contexts: readonly ContextKey[]
  /** A part of it never passed through here, or is not remembered. */
  isUnseen: boolean
  calls: ReadonlyMap<string, ModelCall>
  /** Opaque parts that never passed through here, or followed a history that did not. */
  strange: readonly string[]
  /** What the provider's own tools returned there. */
  results: readonly HistoryResult[]
  /**
   * The provider has calls that the program never saw, and accepts no further request before they are answered; and the program
   * saw texts that the provider does not have. Returns whether the body was changed.
   */
  answerRefused(body: MutableFields): boolean
}>

export type ResponseChains = Readonly<{
  /** `opaque` are the parts of its history that only the provider can read: they refer to the answer that they were part of. */
  referredBy(caller: Caller, format: JudgedFormat, body: Fields, opaque: readonly string[]): ReferredAnswers
  add(caller: Caller, responseId: string, link: ResponseLink): void
  addOpaque(caller: Caller, parts: readonly string[], link: ResponseLink): void
}>

const NOTHING: ReferredAnswers = {
  contexts: [],
  isUnseen: false,
  strange: [],
  calls: new Map(),
  results: [],
  answerRefused: () => false,
}

/** In memory, the oldest dropped first: a request that refers to an unknown answer has a history that nobody judged. */
export function createResponseChains(): ResponseChains {
  const known = new Map<string, ResponseLink>()
  const ofItems = new Map<string, ResponseLink>()
  const ofOpaque = new Map<string, ResponseLink>()
  const keyOf = ({ principal }: Caller, id: string): string => `${principal.tenant}\n${identityOf(principal)}\n${id}`

  const opaqueKeyOf = (caller: Caller, part: string): string => keyOf(caller, sha256Hex(part).slice(0, DIGEST_CHARS))

  function referredBy(caller: Caller, format: JudgedFormat, body: Fields, opaque: readonly string[]): ReferredAnswers {
    const isStored = format.refersToStored?.(body) === true
    const references = format.references?.(body) ?? []
    if (!isStored && references.length + opaque.length === 0) return NOTHING
    const previousId = textOf(body['previous_response_id'])
    const previous = previousId === undefined ? undefined : known.get(keyOf(caller, previousId))
    const items = references.map((reference) => {
      const link = reference.id === undefined ? undefined : ofItems.get(keyOf(caller, reference.id))
      return { link, replacedBy: link?.items.get(reference.id!), replace: reference.replace }
    })
    const hidden = opaque.map((part) => ofOpaque.get(opaqueKeyOf(caller, part)))
    const all = [...new Set([...(isStored ? [previous] : []), ...items.map(({ link }) => link), ...hidden])]
    const links = all.filter((link) => link !== undefined)
    return {
      contexts: links.flatMap(({ contexts }) => contexts),
      isUnseen: links.length < all.length || links.some(({ isUnseen }) => isUnseen),
      strange: opaque.filter((_, index) => hidden[index]?.isUnseen !== false),
      calls: new Map(links.flatMap(({ calls }) => [...calls])),
      results: links.flatMap(({ ran }) => [...ran].map(resultOf)),
      answerRefused(changed) {
        const displayed = items.filter(({ replacedBy }) => replacedBy !== undefined)
        for (const { replace, replacedBy } of displayed) replace(replacedBy!)
        return answerCalls(changed, previous) || displayed.length > 0
      },
    }
  }

  return {
    referredBy,
    add(caller, id, link) {
      put(known, keyOf(caller, id), link, limits.responseChainsMax)
      for (const item of link.items.keys()) put(ofItems, keyOf(caller, item), link, limits.responseItemsMax)
    },
    addOpaque(caller, parts, link) {
      for (const part of parts) put(ofOpaque, opaqueKeyOf(caller, part), link, limits.opaquePartsMax)
    },
  }
}

const DIGEST_CHARS = 32

export function newAnswer(): AnswerParts {
  const calls = new Map<string, ModelCall>()
  const items = new Map<string, string | undefined>()
  return {
    ...{ refused: [], calls, ran: new Set(), items },
    allow({ id, name, args }) {
      if (id === undefined || calls.size >= limits.responseItemsOfAnswerMax) return
      const isShort = (JSON.stringify(args)?.length ?? 0) <= limits.responseCallCharsMax
      calls.set(id, { id, name, args: isShort ? args : undefined })
    },
    wrote(id, replacedBy) {
      if (id.length > limits.responseItemIdCharsMax || items.size >= limits.responseItemsOfAnswerMax) return
      items.set(id, replacedBy)
    },
  }
}

const resultOf = (tool: string): HistoryResult => ({
  call: { name: tool, args: {} },
  value: {},
  isStored: true,
  replace() {},
})

function answerCalls(body: MutableFields, link: ResponseLink | undefined): boolean {
  if (link === undefined || link.refused.length === 0) return false
  const { input } = body
  const said =
    typeof input === 'string' ? [{ role: 'user', content: input }] : Array.isArray(input) ? input : listOf(input)
  const answers = link.refused.map(({ callId, text }) => ({
    type: 'function_call_output',
    call_id: callId,
    output: text,
  }))
  body['input'] = [...answers, ...said]
  return true
}

function put(map: Map<string, ResponseLink>, key: string, link: ResponseLink, most: number): void {
  if (!map.has(key) && map.size >= most) map.delete(map.keys().next().value!)
  map.set(key, link)
}
