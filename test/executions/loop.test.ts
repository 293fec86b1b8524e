import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { AppError } from '../../src/contract/app-error.ts'
import { openTestApp, type TestApp } from '../support/app.ts'
import { agentYaml, type Loop, type LoopRequest, openLoop } from '../support/executions.ts'
import { inTurn, type Line, type ScriptedModel, startScriptedModel } from '../support/scripted-model.ts'

/** The loop with a scripted model, a real engine and the real tools. */
let app: TestApp
beforeAll(async () => {
  app = await openTestApp({ config: { 'rate_limits.enabled': false } })
})
afterAll(() => app[Symbol.asyncDispose]())

type Script = readonly Line[] | Parameters<typeof startScriptedModel>[0]

async function open(
  request: Omit<LoopRequest, 'model'> & { script?: Script },
): Promise<{ loop: Loop; model: ScriptedModel | undefined }> {
  const { script, ...rest } = request
  const model =
    script === undefined
      ? undefined
      : await startScriptedModel(typeof script === 'function' ? script : inTurn(...script))
  const loop = await openLoop(app, { ...rest, ...(model && { model }) })
  onTestFinished(async () => {
    await loop.engine.close()
    await model?.stop()
  })
  return { loop, model }
}

const task = (text = 'Answer.') => `  task: { instruction: "${text}" }\n`
const judge = agentYaml('judge', `${task('Judge.')}  tools: []\n`)
const isJudge = (text: string) => text.includes('Judge.')
const verdict = (score: number, confidence = 1, reasoning = 'because'): Line => ({
  text: JSON.stringify({ score, confidence, reasoning }),
})

describe('an agent without tools', () => {
  test('answers, and that is its output', async () => {
    const { loop, model } = await open({ agents: { a: agentYaml('a', task()) }, script: [{ text: 'forty-two' }] })
    const run = await loop.finish('a', { intent: 'the question', input: { prompt: 'What is it?' } })
    expect(run).toMatchObject({ status: 'completed', text: 'forty-two', iteration: 1, error: null })
    expect(model!.requests[0]!.text).toBe('Answer.\n\nTask: the question\n\nUser: What is it?\n\nAgent:')
    expect(await loop.eventTypes(run.id)).toEqual([
      'execution_started',
      'iteration_started',
      'llm_interaction',
      'iteration_completed',
      'execution_completed',
    ])
    expect((run.output as { usage: object }).usage).toMatchObject({ model_calls: 1 })
  })

  test('is told its system prompt as such, and without an instruction gets the message alone', async () => {
    const { loop, model } = await open({
      agents: {
        a: agentYaml('a', '  task: { system_prompt: "Be an owl." }\n'),
        b: agentYaml('b', '  task: { instruction: "Answer.", system_prompt: "Be a bee." }\n'),
      },
      script: [{ text: 'hoo' }],
    })
    await loop.finish('a', { intent: 'Who are you?' })
    await loop.finish('b', { intent: 'Who are you?' })
    const told = model!.requests.map(({ messages }) => messages.map(({ role, content }) => [role, content]))
    expect(told).toEqual([
      [
        ['system', 'Be an owl.'],
        ['user', 'Who are you?'],
      ],
      [
        ['system', 'Be a bee.'],
        ['user', 'Answer.\n\nUser: Who are you?\n\nAgent:'],
      ],
    ])
  })

  test('is said to have begun before the model has answered', async () => {
    const seen: string[] = []
    const started = Promise.withResolvers<string>()
    const { loop } = await open({
      agents: { a: agentYaml('a', task()) },
      script: async () => {
        seen.push(...(await loop.eventTypes(await started.promise)))
        return { text: 'late' }
      },
    })
    const { id } = await loop.execute('a')
    started.resolve(id)
    await loop.engine.end(id)
    expect(seen).toEqual(['execution_started', 'iteration_started'])
  })

  test('is told why it was not accepted, and passes at the second try', async () => {
    const spec = `${task()}  execution:\n    mode: iterative\n    validation:\n      - { type: json_schema, schema: { type: object, required: [ok] } }\n`
    const { loop, model } = await open({
      agents: { a: agentYaml('a', spec) },
      script: [{ text: 'no' }, { text: '{"ok":1}' }],
    })
    const run = await loop.finish('a')
    expect(run).toMatchObject({ status: 'completed', text: '{"ok":1}', iteration: 2 })
    expect(model!.requests[1]!.text).toContain('Previous attempts')
    expect(model!.requests[1]!.text).toContain('the output is not JSON')
    expect(await loop.eventTypes(run.id)).toContain('refinement_applied')
  })

  test('fails when no iteration is accepted, with the last output and the reason', async () => {
    const spec = `${task()}  execution:\n    mode: iterative\n    max_iterations: 2\n    validation:\n      - { type: regex, pattern: "^yes$" }\n`
    const { loop } = await open({ agents: { a: agentYaml('a', spec) }, script: [{ text: 'no' }] })
    const run = await loop.finish('a')
    expect(run).toMatchObject({
      status: 'failed',
      text: 'no',
      iteration: 2,
      error: { code: 'ERR_ITERATIONS_EXHAUSTED' },
    })
    expect(run.error!.message).toContain('does not match the pattern')
  })

  test('that is one-shot has one iteration', async () => {
    const spec = `${task()}  execution:\n    mode: one-shot\n    validation:\n      - { type: regex, pattern: "^yes$" }\n`
    const { loop, model } = await open({ agents: { a: agentYaml('a', spec) }, script: [{ text: 'no' }] })
    expect((await loop.finish('a')).status).toBe('failed')
    expect(model!.requests).toHaveLength(1)
  })

  test('fails at once when there is no model, and says what to set', async () => {
    const { loop } = await open({ agents: { a: agentYaml('a', task()) } })
    const run = await loop.finish('a')
    expect(run.error).toMatchObject({ code: 'ERR_MODEL_UNAVAILABLE' })
    expect(run.error!.message).toContain('models.providers')
  })

  test('goes on after a failure of the provider, which is told', async () => {
    const spec = `${task()}  execution: { mode: iterative, max_iterations: 2 }\n`
    const { loop } = await open({
      agents: { a: agentYaml('a', spec) },
      script: [{ status: 503 }, { status: 503 }, { text: 'up again' }],
    })
    const run = await loop.finish('a')
    expect(run.text).toBe('up again')
    expect((await loop.eventTypes(run.id)).filter((type) => type === 'llm_call_failed')).toHaveLength(2)
  })

  test('has a time for all of it', async () => {
    const spec = `${task()}  security: { resources: { timeout: "1s" } }\n`
    const { loop } = await open({ agents: { a: agentYaml('a', spec) }, script: () => new Promise(() => {}) })
    const run = await loop.finish('a')
    expect(run.error).toMatchObject({ code: 'ERR_EXECUTION_TIMEOUT' })
    expect(await loop.eventTypes(run.id)).toContain('execution_timed_out')
  })

  test('tells how many iterations there were, also when another would be of no use', async () => {
    const spec = `${task()}  execution: { mode: iterative, max_iterations: 4 }\n`
    const { loop } = await open({ agents: { a: agentYaml('a', spec) }, script: [{ status: 401 }] })
    const run = await loop.finish('a')
    expect(run.error).toMatchObject({ code: 'ERR_MODEL_REFUSED' })
    expect(run.output).toMatchObject({ iterations: 1 })
  })

  test('is cancelled while the model thinks', async () => {
    const asked = Promise.withResolvers<void>()
    const { loop } = await open({
      agents: { a: agentYaml('a', task()) },
      script: () => {
        asked.resolve()
        return new Promise(() => {})
      },
    })
    const { id } = await loop.execute('a')
    await asked.promise
    await loop.engine.call((call) => loop.engine.cancel(call, id))
    expect(await loop.engine.end(id)).toMatchObject({ status: 'cancelled' })
  })
})

describe('judges', () => {
  const judged = (consensus: string) =>
    `${task()}  execution:\n    mode: iterative\n    max_iterations: 2\n    validation:\n      - ${consensus}\n`

  test('are executions below, and their verdict decides', async () => {
    const spec = judged('{ type: semantic, judge_agent: judge, criteria: "Is it good?", min_score: 0.7 }')
    let asked = 0
    const { loop, model } = await open({
      agents: { a: agentYaml('a', spec), judge },
      script: ({ text }) => (isJudge(text) ? verdict(++asked === 1 ? 0.4 : 0.9, 1, 'dull') : { text: `try ${asked}` }),
    })
    const run = await loop.finish('a')
    expect(run).toMatchObject({ status: 'completed', iteration: 2 })
    const displayed = model!.requests.find(({ text }) => isJudge(text))!.text
    for (const part of ['Is it good?', 'semantic_judge', 'try 0', 'tool_audit_history'])
      expect(displayed).toContain(part)
    const types = await loop.eventTypes(run.id)
    expect(types).toContain('child_execution_spawned')
    expect(types).toContain('gradient_validation_performed')
    expect(model!.requests.at(-2)!.text).toContain('dull')
  })

  const kinds = [
    ['semantic', 'judge', '{ type: semantic, judge_agent: judge, criteria: c }'],
    ['multi_judge', 'judge', '{ type: multi_judge, judges: [judge], criteria: c }'],
    ['a judge that names task in its input_schema', 'strict', '{ type: semantic, judge_agent: strict, criteria: c }'],
  ] as const
  test.each(kinds)('are shown the whole request, input included: %s', async (_, agent, kind) => {
    const schema = '  input_schema: { type: object, properties: { task: { type: string } } }\n'
    const strict = agentYaml('strict', `${task('Judge.')}  tools: []\n${schema}`)
    const { loop, model } = await open({
      agents: { a: agentYaml('a', judged(kind)), judge, strict },
      script: ({ text }) => (isJudge(text) ? verdict(1) : { text: 'work' }),
    })
    const input = { prompt: 'Praise the grey harbour.', length: 'four lines' }
    expect(await loop.finish('a', { intent: 'Write verse.', input })).toMatchObject({ status: 'completed' })
    const displayed = model!.requests.find(({ text }) => isJudge(text))!.text
    for (const part of ['Answer.', 'Write verse.', 'Praise the grey harbour.', 'four lines']) {
      expect(displayed, agent).toContain(part)
    }
  })

  test('are shown what a template made of the request', async () => {
    const templated = judged('{ type: semantic, judge_agent: judge, criteria: c }').replace(
      'instruction: "Answer."',
      'instruction: "Answer.", prompt_template: "About {{input.subject}}, please."',
    )
    const { loop, model } = await open({
      agents: { a: agentYaml('a', templated), judge },
      script: ({ text }) => (isJudge(text) ? verdict(1) : { text: 'work' }),
    })
    await loop.finish('a', { input: { subject: 'harbours' } })
    expect(model!.requests.find(({ text }) => isJudge(text))!.text).toContain('About harbours, please.')
  })

  test('agree by the strategy that the manifest names', async () => {
    const other = judge.replace('name: judge', 'name: other')
    const spec = judged('{ type: multi_judge, judges: [judge, other], criteria: c, consensus: unanimous }')
    let asked = 0
    const { loop } = await open({
      agents: { a: agentYaml('a', spec), judge, other },
      script: ({ text }) => (isJudge(text) ? verdict(++asked === 1 ? 0.2 : 0.9) : { text: 'work' }),
    })
    const run = await loop.finish('a')
    expect(run).toMatchObject({ status: 'completed', iteration: 2 })
    const votes = (await loop.engine.journal(run.id)).filter(({ type }) => type === 'multi_judge_consensus')
    expect(votes.map(({ payload }) => (payload as { metadata: { all_pass: boolean } }).metadata.all_pass)).toEqual([
      false,
      true,
    ])
  })

  test('that are missing, or answer nonsense, make the iteration fail, not the program', async () => {
    const missing = judged('{ type: semantic, judge_agent: nobody, criteria: c }')
    const { loop } = await open({ agents: { a: agentYaml('a', missing), judge }, script: [{ text: 'x' }] })
    const run = await loop.finish('a')
    expect(run.error).toMatchObject({ code: 'ERR_ITERATIONS_EXHAUSTED' })
    expect(run.error!.message).toContain("The judge 'nobody' gave no verdict")
    const nonsense = judged('{ type: semantic, judge_agent: judge, criteria: c }')
    const second = await open({ agents: { a: agentYaml('a', nonsense), judge }, script: [{ text: 'fine!' }] })
    expect((await second.loop.finish('a')).error!.message).toContain('its answer is not a verdict')
  })

  test('that do not say how sure they are give no verdict', async () => {
    const spec = judged('{ type: semantic, judge_agent: judge, criteria: c, min_confidence: 0.9 }')
    const { loop } = await open({ agents: { a: agentYaml('a', spec), judge }, script: [{ text: '{"score":1}' }] })
    expect((await loop.finish('a')).error!.message).toContain('its answer is not a verdict')
  })

  const hangs = (kind: string) => `${judged(kind)}  security: { resources: { timeout: "1s" } }\n`
  const unasked: Script = ({ text }) => (isJudge(text) ? new Promise<never>(() => {}) : { text: 'work' })

  test.each([
    ['semantic', '{ type: semantic, judge_agent: judge, criteria: c, timeout_seconds: 600 }'],
    ['multi_judge', '{ type: multi_judge, judges: [judge, judge], criteria: c, timeout_seconds: 600 }'],
  ])('have no more time than the whole execution: %s', async (_, kind) => {
    const { loop } = await open({ agents: { a: agentYaml('a', hangs(kind)), judge }, script: unasked })
    const run = await loop.finish('a')
    expect(run).toMatchObject({ status: 'failed', iteration: 1, error: { code: 'ERR_EXECUTION_TIMEOUT' } })
    expect(await loop.eventTypes(run.id)).toContain('execution_timed_out')
  })

  test('of tool calls have no more time than the iteration', async () => {
    const spec = `${task()}  tools: [aegis.task.cancel]\n  execution:\n    mode: one-shot\n    iteration_timeout: "1s"\n    tool_validation:\n      - { type: semantic, judge_agent: judge, criteria: c, timeout_seconds: 600 }\n`
    const { loop } = await open({
      agents: { a: agentYaml('a', spec), judge },
      script: ({ text }) =>
        isJudge(text)
          ? new Promise<never>(() => {})
          : { toolCalls: [{ name: 'aegis_task_cancel', arguments: { execution_id: 'x' } }] },
    })
    const run = await loop.finish('a')
    expect(run.error).toMatchObject({ code: 'ERR_ITERATIONS_EXHAUSTED' })
    expect(run.error!.message).toContain('spec.execution.iteration_timeout')
  })
})

describe('what becomes of the output', () => {
  test('another agent, a webhook and destinations get it', async () => {
    const spec = `${task()}  output_handler: { type: webhook, url: "https://example.org/hook", body_template: '{"o":"{{output}}"}', required: true, headers: { authorization: "secret:token" } }\n  execution:\n    mode: iterative\n    delivery:\n      destinations:\n        - { name: d, condition: always, type: webhook, webhook: { url: "https://example.org/d" } }\n`
    const { loop } = await open({ agents: { a: agentYaml('a', spec) }, script: [{ text: 'out' }] })
    const run = await loop.finish('a')
    expect(run).toMatchObject({ status: 'completed', text: 'delivered' })
    expect(loop.sent.map(({ url, body }) => [url, body.slice(0, 11)])).toEqual([
      ['https://example.org/hook', '{"o":"out"}'],
      ['https://example.org/d', '{"execution'],
    ])
    expect(loop.sent[0]!.headers['authorization']).toBe('s3cret')
    expect(JSON.stringify(await loop.engine.journal(run.id))).not.toContain('s3cret')
  })

  test('a header may have a secret in the middle, of the manifest alone', async () => {
    const spec = (name: string) =>
      `${task()}  output_handler: { type: webhook, url: "https://example.org/hook", body_template: "{{output}}", required: true, headers: { authorization: "Bearer {{secret:${name}}}" } }\n`
    const { loop } = await open({
      agents: { a: agentYaml('a', spec('token')), b: agentYaml('b', spec('nobody')) },
      script: [{ text: 'say {{secret:token}}' }],
    })
    expect((await loop.finish('a')).error).toBeNull()
    expect(loop.sent).toMatchObject([{ headers: { authorization: 'Bearer s3cret' }, body: 'say {{secret:token}}' }])
    const refused = await loop.finish('b')
    expect(refused.error!.message).toContain('spec.output_handler.headers.authorization: secret:nobody is not set')
  })

  test('a webhook that cannot be reached is tried again, as often as the manifest says', async () => {
    const spec = `${task()}  output_handler: { type: webhook, url: "https://example.org/hook", retry: 1, required: true }\n`
    let tries = 0
    const http = {
      async send() {
        if (tries++ === 0) throw new AppError('ERR_WEB_FAILED', 'The host could not be asked (ECONNREFUSED).')
        return { status: 200, body: 'delivered' }
      },
    }
    const { loop } = await open({ agents: { a: agentYaml('a', spec) }, script: [{ text: 'out' }], deps: { http } })
    expect(await loop.finish('a')).toMatchObject({ status: 'completed', text: 'delivered' })
    expect(tries).toBe(2)
  })

  test('a handler that must succeed and does not makes the execution fail', async () => {
    const spec = `${task()}  output_handler: { type: webhook, url: "https://example.org/refuse", required: true }\n`
    const { loop } = await open({ agents: { a: agentYaml('a', spec) }, script: [{ text: 'out' }] })
    expect((await loop.finish('a')).error).toMatchObject({ code: 'ERR_OUTPUT_HANDLER_FAILED' })
  })

  test('an agent may handle the output of another', async () => {
    const spec = `${task()}  output_handler: { type: agent, agent_id: b, input_template: "Shorten: {{output}}" }\n`
    const { loop } = await open({
      agents: { a: agentYaml('a', spec), b: agentYaml('b', task('Format.')) },
      script: ({ text }) => ({
        text: text.includes('Format.') ? `short of ${/Shorten: (\w+)/.exec(text)![1]}` : 'long',
      }),
    })
    expect((await loop.finish('a')).text).toBe('short of long')
  })

  test.each([
    ['', 'restart interrupted'],
    ['interrupted_calls: report', 'restart interrupted'],
    ['interrupted_calls: retry', 'No such'],
  ])(
    'a tool that a death interrupted is called again only if that is harmless or wanted: %s',
    async (request, told) => {
      const args = '{ agent_id: no-such-agent }'
      const spec = `${task()}  tools: [aegis.task.execute]\n  execution: { ${request} }\n  output_handler: { type: mcp_tool, tool_name: aegis.task.execute, arguments: ${args}, required: true }\n`
      const { loop } = await open({ agents: { a: agentYaml('a', spec) }, script: [{ text: 'out' }] })
      const first = await loop.finish('a')
      expect(first.error!.message).toContain('No such')
      const rows = await loop.engine.journal(first.id)
      const journal = rows.slice(1, rows.findIndex(({ key }) => key === 'output/step~began') + 1)
      const { id } = await loop.engine.run({ subjectId: first.subjectId, input: first.input, journal })
      const { error } = await loop.engine.end(id)
      expect(error).toMatchObject({ code: 'ERR_OUTPUT_HANDLER_FAILED', message: expect.stringContaining(told) })
    },
  )

  test('an agent that handles it has no more time than the whole execution', async () => {
    const spec = `${task()}  output_handler: { type: agent, agent_id: b, required: true }\n  security: { resources: { timeout: "1s" } }\n`
    const { loop } = await open({
      agents: { a: agentYaml('a', spec), b: agentYaml('b', task('Format.')) },
      script: ({ text }) => (text.includes('Format.') ? new Promise<never>(() => {}) : { text: 'long' }),
    })
    expect((await loop.finish('a')).error).toMatchObject({ code: 'ERR_OUTPUT_HANDLER_FAILED' })
  })
})
