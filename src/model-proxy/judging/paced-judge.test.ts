import { describe, expect, it } from 'vitest'
import { limits } from '../../contract/limits.ts'
import { localOwner } from '../../contract/principal.ts'
import { systemRandom } from '../../kernel/random.ts'
import { chatFormat } from './chat-format.ts'
import { createJudging } from './create-judging.ts'
import { createAnswerJudge } from './events.ts'
import { createPace, pacedJudge } from './paced-judge.ts'
import type { Fields, ToolJudge } from './ports.ts'

const call = (index: number) => ({
  index,
  id: `c${index}`,
  type: 'function',
  function: { name: 'look', arguments: '{}' },
})
const calls = (count: number) => Array.from({ length: count }, (_, index) => call(index))
const judge = () =>
  createAnswerJudge(
    chatFormat,
    pacedJudge({ refusalOf: () => undefined, providerRan() {}, wrote() {}, wroteOpaque() {} }),
  )
const whole = async (count: number) =>
  await judge().whole(Buffer.from(JSON.stringify({ choices: [{ message: { tool_calls: calls(count) } }] })), true)
const stream = async (count: number) => {
  const event = { choices: [{ index: 0, delta: { tool_calls: calls(count) }, finish_reason: 'tool_calls' }] }
  return await judge().take(Buffer.from(`data: ${JSON.stringify(event)}\n\n`))
}

/** How many turns others get while something is done. */
async function turnsDuring(work: () => Promise<unknown>): Promise<number> {
  let turns = 0
  let isOver = false
  const tick = (): void => {
    if (isOver) return
    turns++
    setImmediate(tick)
  }
  setImmediate(tick)
  await work()
  isOver = true
  return turns
}

it.each([
  ['whole', whole],
  ['streamed', stream],
])('others are served while many calls are judged, and too many are refused: %s', async (_, answer) => {
  const most = limits.modelAnswerCallsMax
  expect(await turnsDuring(async () => expect(await answer(most)).toBeDefined())).toBeGreaterThanOrEqual(most / 20 - 1)
  await expect(answer(most + 1)).rejects.toMatchObject({ code: 'ERR_TOO_LARGE' })
})

it('an answer of too many members is refused before it is parsed', async () => {
  const members = Array.from({ length: limits.modelAnswerMembersMax + 1 }, (_, index) => `"${index}":0`).join()
  const text = `{"x":{${members}},"choices":[{"message":{"tool_calls":[]}}]}`
  await expect((async () => judge().whole(Buffer.from(text), true))()).rejects.toMatchObject({ code: 'ERR_TOO_LARGE' })
})

it('others are served while a long list is walked through', async () => {
  const pace = createPace()
  const walk = async (): Promise<void> => {
    for (let step = 0; step < 400; step++) await pace()
  }
  expect(await turnsDuring(walk)).toBeGreaterThanOrEqual(19)
})

describe('a request', () => {
  const tools: ToolJudge = {
    hasPolicies: () => true,
    isRestrictive: false,
    call: () => ({
      action: 'allow',
      specificity: 'built-in',
      reason: '',
      becauseUntrusted: false,
      trace: [],
      tool: 'x',
    }),
    result: () => ({ action: 'trusted', reason: '', trace: [], tool: 'x' }),
    isUntrusted: () => false,
    taint: async () => {},
    sanitise: async () => '',
  }
  const begin = (body: Fields) =>
    createJudging({ tools, random: systemRandom }).begin({
      caller: { principal: localOwner, method: 'api_key' },
      ...{ proxy: undefined, operation: 'chat', headers: {}, body, signal: () => AbortSignal.timeout(60_000) },
      bytes: JSON.stringify(body).length,
    })
  const asking = (chars: number): Fields => ({ messages: [{ role: 'user', content: 'x'.repeat(chars) }] })

  it('that is small is judged at once', () => {
    expect(begin(asking(1_000))).not.toBeInstanceOf(Promise)
  })

  it('that is large leaves a turn to others before it is judged, and one after that', async () => {
    const body = asking(1_000_000)
    const turns = await turnsDuring(async () => expect(await begin(body)).toBeDefined())
    expect(turns).toBeGreaterThanOrEqual(2)
  })
})
