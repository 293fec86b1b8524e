import { expect, it } from 'vitest'
import type { Decision } from '../../src/contract/decision.ts'
import {
  type Interaction,
  type InteractionLabels,
  interactionOutcomes,
  interactionSources,
} from '../../src/contract/interaction.ts'
import { LOCAL_TENANT } from '../../src/contract/principal.ts'
import { providerKeyScopes } from '../../src/contract/provider-keys.ts'
import { openTestApp } from '../support/app.ts'

const verdicts = ['allow', 'deny', 'require_approval', 'trusted', 'untrusted', 'block', 'sanitise'] as const
const all: Required<Decision>[] = verdicts.map((verdict) => ({
  ...{ stage: 'invocation-policy', verdict, tool: 'send_mail', policy: 'pol_1', reason: 'default' },
}))
const labels: Required<InteractionLabels> = { session: 's', agent: 'a', user: 'u', run: 'r' }

/** Every member that an interaction can have. The types are complete, so that a new member must be added here. */
const full: Required<Interaction> = {
  ...{ tenant: LOCAL_TENANT, owner: 'local', actor: 'alice', authenticatedBy: 'virtual_key' },
  ...{ userId: 'usr_1', keyId: 'key_1', virtualKeyId: 'vk_1', providerKeyScope: 'org', teams: ['team_1'] },
  ...{ source: 'proxy', proxyId: 'p_1', agentId: 'a_1', runId: 'run_1', provider: 'first', protocol: 'openai' },
  ...{ operation: 'chat', requestedModel: 'm', rule: { id: 'rule_1', name: 'cheaper' }, usedModel: 'm-1' },
  ...{ isStream: true, outcome: 'ok', httpStatus: 200, errorCode: 'ERR_LIMIT_EXCEEDED', isEstimated: true },
  tokens: { input: 9, output: 8, cacheRead: 3, cacheWrite: 2, reasoning: 1 },
  ...{ costNanodollars: 7, savedNanodollars: 5, startedAtMs: 1_000, firstTokenMs: 1.5, durationMs: 2.5 },
  ...{ requestBytes: 10, answerBytes: 20, decisions: all, labels },
  traceParent: { traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331' },
}
/** As little as there can be. */
const bare: Interaction = {
  ...{ tenant: LOCAL_TENANT, owner: 'local', actor: 'alice', authenticatedBy: 'server' },
  ...{ userId: null, keyId: null, virtualKeyId: null, teams: [], source: 'sanitiser' },
  ...{ proxyId: null, agentId: null, runId: null, provider: 'first', protocol: 'gemini', operation: 'generate' },
  ...{ requestedModel: null, usedModel: null, isStream: false, outcome: 'failed', httpStatus: null, errorCode: null },
  ...{ tokens: null, isEstimated: false, costNanodollars: null, startedAtMs: 1_000, firstTokenMs: null },
  ...{ durationMs: 0, requestBytes: 0, answerBytes: 0, decisions: [], labels: {} },
}
const kinds: readonly Interaction[] = [
  full,
  bare,
  { ...full, rule: { id: null, name: 'cheaper' } },
  ...interactionSources.map((source) => ({ ...full, source })),
  ...interactionOutcomes.map((outcome) => ({ ...bare, outcome })),
  ...[...providerKeyScopes, null].map((providerKeyScope) => ({ ...full, providerKeyScope })),
  ...all.flatMap(({ stage, verdict, ...rest }) =>
    [{}, rest].map((more) => ({ ...full, decisions: [{ stage, verdict, ...more }] })),
  ),
]

it('every kind of interaction can be listed and shown, with all that was noted of it', async () => {
  await using test = await openTestApp({ config: { 'interactions.bodies': 'full' } })
  const { interactions } = await test.app.ready
  for (const one of kinds) interactions!.add(one, { request: Buffer.from('{}'), answer: Buffer.from('{}') })
  const listed = await test.ask<{ interactions: { id: string }[] }>('interaction_list', { limit: 500, totals: true })
  expect(listed.interactions).toHaveLength(kinds.length)
  const shown: Record<string, unknown>[] = []
  for (const { id } of listed.interactions) {
    shown.push((await test.ask<{ interaction: Record<string, unknown> }>('interaction_get', { id })).interaction)
  }
  const sorted = (lists: readonly unknown[]): string[] => lists.map((list) => JSON.stringify(list)).toSorted()
  expect(sorted(shown.map(({ decisions }) => decisions))).toEqual(sorted(kinds.map(({ decisions }) => decisions)))
})
