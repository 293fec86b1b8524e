import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { type AgentProgram, agentPrograms, type ModelAddresses, type Server } from '../test/clients/agent-programs.ts'
import { openGatewayStage, SAID, wantedAt } from '../test/clients/gateway-stage.ts'
import { readRecording, recordHttp } from '../test/clients/recording.ts'
import { isNameOf, openModelStage } from '../test/clients/scripted-models.ts'
import { type RealServer, startRealServer } from '../test/support/real-server.ts'

/**
 * Runs real agent programs against the real server, offline: npm run test:clients [-- NAME…] [--record] [--proxied | --gateway].
 * Each is installed once, from npm, into the user's cache. Over standard streams and HTTP, with the small and the full list, it
 * must show its model the tools under names that models take, call one, and hand the answer back. With --record, what
 * the programs sent is written to test/clients/recordings, which npm test replays. Then it does so with its model behind the model
 * proxy of the same server, and once more with a policy against the tool: the program must end in order, with the refusal as its text.
 * Last, it calls the tool of another MCP server at the address of a gateway, as a member with a key. There the small list is
 * the exposure `search_and_run_only`.
 */
const WANTED = { tool: 'search_tools', args: { query: 'create a task' } }
const MARK = 'matchCount'
const REASON = 'not during this test'
const RUN_TIMEOUT_MS = 180_000
const cache = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'castellan', 'clients')
const recordings = resolve('test/clients/recordings')

type Case = Readonly<{
  program: AgentProgram
  /** `proxy` is HTTP, with the models behind the same server; in `denied` a policy is against the call; `gateway` is HTTP too. */
  transport: 'stdio' | 'http' | 'proxy' | 'denied' | 'gateway'
  tools: 'default' | 'full'
}>

function installed({ name, package: from, version, bin }: AgentProgram): string {
  const folder = join(process.env['CASTELLAN_TEST_CLIENTS'] ?? cache, `${name}-${version}`)
  const path = join(folder, 'node_modules', '.bin', bin)
  if (existsSync(path)) return path
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'package.json'), '{"private":true}\n')
  console.log(`installing ${from}@${version} into ${folder}`)
  const options = ['install', '--no-audit', '--no-fund', '--ignore-scripts=false', `${from}@${version}`]
  const { status } = spawnSync('npm', options, { cwd: folder, stdio: ['ignore', 'ignore', 'inherit'] })
  if (status !== 0 || !existsSync(path)) throw new Error(`npm could not install ${from}@${version}`)
  return path
}

async function run({ program, transport, tools }: Case, isRecording: boolean): Promise<string[]> {
  const bin = installed(program)
  const home = mkdtempSync(join(tmpdir(), `castellan-${program.name}-`))
  const messages = join(home, 'messages.jsonl')
  writeFileSync(messages, '')
  const exposure = tools === 'full' ? 'full' : 'search_and_run_only'
  const model = await openModelStage(transport === 'gateway' ? wantedAt(exposure) : WANTED)
  const http = transport === 'stdio' ? undefined : await startServer(home, transport, model.origin)
  const origin = http && new URL(http.url).origin
  const gateway = transport === 'gateway' ? await openGatewayStage(origin!, http!.dataDir, exposure) : undefined
  const proxy = http && (await recordHttp(messages, gateway?.url ?? `${http.url}?tools=${tools}`))
  try {
    const server: Server =
      proxy === undefined
        ? {
            command: process.execPath,
            args: [
              resolve('test/clients/recording.ts'),
              messages,
              resolve('bin/castellan'),
              ...['mcp', '--tools', tools, '--data-dir', join(home, 'state')],
            ],
          }
        : { url: proxy.url, headers: gateway === undefined ? {} : { Authorization: `Bearer ${gateway.key}` } }
    const isProxied = transport === 'proxy' || transport === 'denied'
    const models = isProxied ? modelsOf(origin!) : directly(model.origin)
    const { env, args, files } = program.launch({ home, models, server })
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(dirname(join(home, path)), { recursive: true })
      writeFileSync(join(home, path), text)
    }
    const printed = await runProgram(bin, args, { ...env, HOME: home, XDG_CONFIG_HOME: join(home, '.config') }, home)
    const shown = model.displayedTools()
    const faults =
      transport === 'denied'
        ? faultsOfDenied(printed, model.toolAnswer())
        : gateway === undefined
          ? faultsOf(shown, model.toolAnswer(), MARK, tools === 'full' ? 'fs_read' : 'search_tools')
          : [
              ...faultsOf(shown, model.toolAnswer(), SAID, tools === 'full' ? 'up__sum' : 'search_tools'),
              ...(await gateway.faultsOfRecord()),
            ]
    if (faults.length > 0) faults.push(`it printed: ${printed.slice(-2_000)}`)
    else if (isRecording && !isProxied) {
      const file = join(recordings, `${program.name}.${transport}.json`)
      mkdirSync(recordings, { recursive: true })
      writeFileSync(file, `${JSON.stringify(readRecording(messages), null, 2)}\n`)
    }
    return faults
  } finally {
    endProcessesOf(home)
    await model.close()
    await proxy?.close()
    await gateway?.[Symbol.asyncDispose]()
    await http?.stop()
    rmSync(home, { recursive: true, force: true })
  }
}

const directly = (origin: string): ModelAddresses => ({ anthropic: origin, openai: `${origin}/v1`, gemini: origin })
const modelsOf = (origin: string): ModelAddresses => ({
  anthropic: `${origin}/v1/anthropic`,
  openai: `${origin}/v1/openai`,
  gemini: `${origin}/v1/gemini`,
})

/** With the models of the case behind it, and a policy where the case has one. */
async function startServer(home: string, transport: Case['transport'], model: string): Promise<RealServer> {
  const dataDir = join(home, 'served')
  mkdirSync(dataDir)
  const endpoints = { anthropic: `${model}/v1`, openai: `${model}/v1`, gemini: `${model}/v1beta` }
  const providers = Object.entries(endpoints).map(([type, endpoint]) => ({
    name: type,
    type,
    endpoint,
    models: [{ alias: type, model: 'mock-model' }],
  }))
  const web = { allow_private_addresses: ['127.0.0.1'] }
  writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify({ models: { providers }, web }))
  const server = await startRealServer({ dataDir })
  if (transport !== 'denied') return server
  const response = await fetch(`${new URL(server.url).origin}/v1/tools/create_tool_invocation_policy`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ toolId: WANTED.tool, conditions: [], action: 'block_always', reason: REASON }),
  })
  if (!response.ok) throw new Error(`the policy could not be made: ${await response.text()}`)
  return server
}

function faultsOfDenied(printed: string, answer: string | undefined): string[] {
  return [
    ...(printed.includes(REASON) ? [] : ['it did not say why the call was denied']),
    ...(answer === undefined ? [] : ['a call that was denied was made']),
  ]
}

function faultsOf(displayed: readonly string[], answer: string | undefined, mark: string, beside: string): string[] {
  const own = displayed.filter((name) => !/^[A-Za-z0-9_-]{1,128}$/.test(name))
  return [
    ...(displayed.length === 0 ? ['its model was not shown the wanted tool'] : []),
    ...(own.length > 0 ? [`its model was shown names that models refuse: ${own.slice(0, 5).join(', ')}`] : []),
    ...(new Set(displayed).size < displayed.length ? ['its model was shown a name twice'] : []),
    ...(displayed.length > 0 && !displayed.some((name) => isNameOf(beside, name))
      ? [`its model was not shown ${beside}`]
      : []),
    ...(answer?.includes(mark) === true ? [] : ['the answer of the tool did not come back to its model']),
  ]
}

function runProgram(bin: string, args: readonly string[], env: Record<string, string>, cwd: string): Promise<string> {
  const own = { PATH: process.env['PATH'] ?? '', TERM: 'dumb', LANG: 'C.UTF-8', NO_COLOR: '1' }
  const child = spawn(bin, args, { cwd, env: { ...own, ...env }, stdio: ['ignore', 'pipe', 'pipe'], detached: true })
  let printed = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (part: Buffer) => {
      printed = (printed + part.toString()).slice(-20_000)
    })
  }
  const end = (): void => {
    try {
      process.kill(-child.pid!, 'SIGKILL')
    } catch {
      // It is gone already, with all that it started.
    }
  }
  const timer = setTimeout(end, RUN_TIMEOUT_MS)
  return new Promise((done, failed) => {
    child.on('error', failed)
    child.on('exit', () => {
      clearTimeout(timer)
      end()
      done(printed)
    })
  })
}

/** Some programs leave a process behind, in a group of its own; it has the home of the run. */
function endProcessesOf(home: string): void {
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      const environment = readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0')
      if (environment.includes(`HOME=${home}`)) process.kill(Number(pid), 'SIGKILL')
    } catch {
      // It has ended meanwhile.
    }
  }
}

const words = process.argv.slice(2)
const names = words.filter((word) => !word.startsWith('--'))
/** With --proxied only what concerns the model proxy, with --gateway only the gateway. */
const transports: readonly Case['transport'][] = words.includes('--proxied')
  ? ['proxy', 'denied']
  : words.includes('--gateway')
    ? ['gateway']
    : ['stdio', 'http', 'proxy', 'denied', 'gateway']
const unknown = names.filter((name) => !agentPrograms.some((program) => program.name === name))
if (unknown.length > 0) throw new Error(`no such client: ${unknown.join(', ')}`)
let failures = 0
for (const program of agentPrograms.filter(({ name }) => names.length === 0 || names.includes(name))) {
  for (const transport of transports) {
    for (const tools of ['default', 'full'] as const) {
      const faults = await run({ program, transport, tools }, words.includes('--record') && tools === 'full')
      failures += faults.length === 0 ? 0 : 1
      console.log(`${faults.length === 0 ? 'ok   ' : 'FAIL '} ${program.name} ${program.version} ${transport} ${tools}`)
      for (const fault of faults) console.log(`       ${fault}`)
    }
  }
}
process.exitCode = failures === 0 ? 0 : 1
