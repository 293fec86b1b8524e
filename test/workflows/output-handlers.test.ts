import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import type { TestApp } from '../support/app.ts'
import { addHostAddress } from '../support/network-bench.ts'
import { answer, type Route, serveWeb } from '../support/web-server.ts'
import { ended, eventsOf, register, runStates, start, workflowYaml } from '../support/workflows.ts'
import { destroyAll, openWorkspaceApp, rowsFor } from '../support/workspaces.ts'

/** A public address that this machine has for a while. */
const OWN_ADDRESS = '203.0.113.63'

let app: TestApp
beforeAll(async () => {
  vi.stubEnv('TOKEN_OF_HANDLERS', 'token-of-mine')
  const executions = { 'executions.secrets': ['token env:TOKEN_OF_HANDLERS'], 'executions.values': ['region=north'] }
  app = await openWorkspaceApp({
    config: { 'web.allow_private_addresses': ['127.0.0.1'], 'workflows.images': ['*=host'], ...executions },
  })
})
afterAll(async () => {
  await destroyAll(app)
  await app[Symbol.asyncDispose]()
  vi.unstubAllEnvs()
})

async function serve(routes: Readonly<Record<string, Route>>, address?: string) {
  const server = await serveWeb(routes, address)
  onTestFinished(() => server[Symbol.asyncDispose]())
  return server
}

/** One state that says a word, and gives it to the handler; then the one where it ends well, or badly. */
const states = (handler: string, more = '', word = 'abc') =>
  `A: { kind: ContainerRun, name: a, image: host, command: [printf, "${word}"], output_handler: { ${handler} }, ${more} transitions: [{ condition: on_success, target: GOOD }, { condition: on_failure, target: BAD }] }
GOOD: { kind: System, command: update_blackboard, transitions: [] }
BAD: { kind: System, command: update_blackboard, transitions: [] }`

const failing: Route = (_request, response) => void response.writeHead(404).end('no')

/** As a death while the handler worked leaves it, to be gone on with by the next program. */
function interruptHandlers(id: string): void {
  app.behindItsBack((db) => {
    const began = db
      .prepare("SELECT sequence FROM run_journal WHERE run_id = ? AND key LIKE '%output-handler~began'")
      .get(id) as { sequence: number }
    db.prepare('DELETE FROM run_journal WHERE run_id = ? AND sequence > ?').run(id, began.sequence)
    db.prepare(
      "UPDATE runs SET status = 'running', output = 'null', error = NULL, ended_at = NULL, ended_sequence = NULL, claim = NULL, state = 'A', last_sequence = ? WHERE id = ?",
    ).run(began.sequence, id)
  })
}

describe('a tool as output handler of a state', () => {
  it.each([
    ['task_create', 'arguments: { project: made, title: "{{output.stdout}}" }', 'BAD', 'restart interrupted'],
    ['task_list', 'arguments: { project: made }', 'GOOD', undefined],
  ])('that a death interrupted is called again only if that is harmless: %s', async (tool, args, end, told) => {
    const handler = `type: mcp_tool, tool_name: ${tool}, ${args}, required: true`
    const first = await runStates(app, `called-${tool.replace('_', '-')}`, states(handler))
    expect(first).toMatchObject({ status: 'completed', current_state: 'GOOD' })
    interruptHandlers(first.execution_id)
    app = await app.restart()
    const again = await ended(app, first.execution_id)
    expect([again.status, again.current_state]).toEqual(['completed', end])
    if (told !== undefined) expect(again.blackboard['A']?.['error']).toContain(told)
    expect((await app.ask<{ tasks: unknown[] }>('task_list', { project: 'made' })).tasks).toHaveLength(1)
  })
})

describe('a webhook as output handler of a state', () => {
  it('is sent the output, and its answer takes the place of the output', async () => {
    const web = await serve({ '/hook': answer('{"stored": 7}', 'application/json'), '/plain': answer('thanks') })
    const headers = 'headers: { authorization: "secret:token", x-region: "config:region", x-word: "{{output.stdout}}" }'
    const body = `body_template: '{"said": {{json output.stdout}}, "for": "{{intent}}", "of": "{{input.who}}"}'`
    const run = await runStates(
      app,
      'hooked',
      `${states(
        `type: webhook, url: "${web.at('/hook')}", method: PUT, required: true, ${headers}, ${body}`,
        '',
        'secret:token',
      )
        .replace('target: GOOD', 'target: B')
        .replace(/GOOD:.*/, '')}
B: { kind: ContainerRun, name: b, image: host, command: [printf, x], output_handler: { type: webhook, url: "${web.at('/plain')}" }, transitions: [] }`,
      { run: { input: { who: 'Ann' }, intent: 'say it' } },
    )
    expect(run.blackboard['A']).toMatchObject({ handled: true, output: { stored: 7 }, stdout: 'secret:token' })
    expect(run.blackboard['B']).toMatchObject({ handled: true, output: 'thanks' })
    const [first] = web.requests
    expect(first).toMatchObject({
      method: 'PUT',
      // What an output says is a text, also where it reads like a reference.
      headers: { authorization: 'token-of-mine', 'x-region': 'north', 'x-word': 'secret:token' },
    })
    expect(JSON.parse(web.bodies[0]!)).toEqual({ said: 'secret:token', for: 'say it', of: 'Ann' })
    expect(JSON.parse(web.bodies[1]!)).toMatchObject({
      execution_id: run.execution_id,
      workflow: 'hooked',
      state: 'B',
      output: { exit_code: 0, stdout: 'x' },
    })
    expect(JSON.stringify(await eventsOf(app, run.execution_id))).not.toContain('token-of-mine')
  })

  it('is tried again as often as it says, and fails the state only where it is required', async () => {
    let tries = 0
    const web = await serve({
      '/busy': (_request, response) => void response.writeHead(tries++ === 0 ? 503 : 200).end('late'),
      '/no': failing,
    })
    const again = await runStates(app, 'again', states(`type: webhook, url: "${web.at('/busy')}", retry: 1`))
    expect(again.blackboard['A']).toMatchObject({ output: 'late' })
    expect(tries).toBe(2)
    const hook = `type: webhook, url: "${web.at('/no')}"`
    const required = await runStates(app, 'required', states(`${hook}, required: true`))
    expect(required).toMatchObject({ current_state: 'BAD', blackboard: { A: { status: 'failed' } } })
    expect(required.blackboard['A']!['error']).toBe('the output handler failed: the address answered 404')
    const optional = await runStates(app, 'optional', states(hook))
    expect(optional).toMatchObject({ current_state: 'GOOD', blackboard: { A: { output: { stdout: 'abc' } } } })
    expect(optional.blackboard['A']).toMatchObject({ output_handler_error: 'the address answered 404' })
  })

  it('reaches no private address that is not allowed, no public one of this machine, and has secrets only for the own tenant', async () => {
    const web = await serve({ '/': answer('in') }, '127.0.0.2')
    const closed = await runStates(app, 'closed', states(`type: webhook, url: "${web.at('/')}", required: true`))
    expect(closed.blackboard['A']!['error']).toContain('DomainNotAllowed')
    expect(web.requests).toEqual([])

    onTestFinished(addHostAddress(OWN_ADDRESS))
    const own = await serve({ '/': answer('in') }, OWN_ADDRESS)
    const ours = await runStates(app, 'ours', states(`type: webhook, url: "${own.at('/')}", required: true`))
    expect(ours.blackboard['A']!['error']).toContain('DomainNotAllowed')
    expect(own.requests).toEqual([])

    const open = await serve({ '/': answer('in') })
    const eve = await app.keyCaller({ name: 'eve', tenant: 'evil', role: 'admin', tier: 'system' })
    const hook = `type: webhook, url: "${open.at('/')}", headers: { x-a: "secret:token" }, required: true`
    await register(app, workflowYaml('curious', states(hook)), {}, eve)
    const run = await ended(app, await start(app, 'curious', {}, eve), eve)
    expect(run.blackboard['A']!['error']).toContain('spec.states.A.output_handler.headers.x-a: secret:token is not set')
    expect(open.requests).toEqual([])
  })

  it('ends with the time of its state, and with its run', async () => {
    const gone: string[] = []
    const hanging: Route = (request, response) => void response.on('close', () => gone.push(request.url!))
    const web = await serve({ '/slow': hanging, '/cancelled': hanging })
    const hook = (path: string) => `type: webhook, url: "${web.at(path)}", required: true`
    const late = await runStates(app, 'late', states(hook('/slow'), 'timeout: 2s,'))
    expect(late).toMatchObject({ current_state: 'BAD', blackboard: { A: { status: 'failed' } } })
    await register(app, workflowYaml('stopped', states(hook('/cancelled'))))
    const execution_id = await start(app, 'stopped')
    await expect.poll(() => web.requests.length).toBe(2)
    await app.ask('aegis.workflow.cancel', { execution_id })
    expect(await ended(app, execution_id)).toMatchObject({ status: 'cancelled' })
    await expect.poll(() => gone).toEqual(['/slow', '/cancelled'])
  })
})

describe('a container as output handler of a state', () => {
  it('gets the output on its input, and what it writes takes its place', async () => {
    const script = 'sed s/abc/cba/; echo "$T $R $W $1"'
    const env = 'env: { T: "secret:token", R: "config:region", W: "{{output.stdout}}" }'
    const command = `command: [sh, -c, '${script}', sh, "{{default input.missing ''}}", "{{output.stdout}} $HOME"]`
    const resources = 'resources: { cpu: 500, memory: 64Mi, disk: 1g, timeout: 30s }'
    const handler = `type: container, image: "docker.io/library/alpine:3.20", ${command}, ${env}, ${resources}, required: true`
    const run = await runStates(app, 'boxed', states(handler))
    expect(run).toMatchObject({ status: 'completed', current_state: 'GOOD' })
    const output = String(run.blackboard['A']!['output'])
    expect(output).toMatch(/^\{.*"stdout":"cba".*\}/)
    expect(output).toContain('*** north abc abc $HOME')
    const substituted = (await eventsOf(app, run.execution_id)).find(
      ({ event_type }) => event_type === 'container_image_substituted',
    )
    expect(substituted).toMatchObject({ payload: { step: 'output_handler', used: 'host' } })
    expect(await rowsFor(app)).toEqual([])
  })

  it('that fails leaves the output as it was, or fails the state that requires it', async () => {
    const handler = (command: string) => `type: container, image: host, command: [sh, -c, "${command}"]`
    const optional = await runStates(app, 'exit-optional', states(handler('exit 3')))
    expect(optional).toMatchObject({ current_state: 'GOOD', blackboard: { A: { output: { stdout: 'abc' } } } })
    expect(optional.blackboard['A']!['output_handler_error']).toBe('the command exited with code 3')
    const required = await runStates(app, 'exit-required', states(`${handler('exit 3')}, required: true`))
    expect(required).toMatchObject({ current_state: 'BAD', blackboard: { A: { status: 'failed' } } })
    const long = handler('head -c 2000000 /dev/zero')
    const cut = await runStates(app, 'cut', states(`${long}, required: true`))
    expect(cut.blackboard['A']!['error']).toContain('wrote more than')
    expect(await rowsFor(app)).toEqual([])
  })

  it('ends with its run, and so does its workspace', async () => {
    await register(app, workflowYaml('asleep', states('type: container, image: host, command: [sleep, "600"]')))
    const execution_id = await start(app, 'asleep')
    const isBoxed = async () => (await rowsFor(app)).some(({ name }) => name.endsWith('-output'))
    await expect.poll(isBoxed).toBe(true)
    await app.ask('aegis.workflow.cancel', { execution_id })
    expect(await ended(app, execution_id)).toMatchObject({ status: 'cancelled' })
    await expect.poll(() => rowsFor(app)).toEqual([])
  })
})
