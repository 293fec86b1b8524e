import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { type AgentProgram, agentPrograms, type Server } from '../test/clients/agent-programs.ts'
import { readRecording, recordHttp } from '../test/clients/recording.ts'
import { openModelStage } from '../test/clients/scripted-models.ts'
import { startRealServer } from '../test/support/real-server.ts'

/**
 * Runs real agent programs against the real server, offline: npm run test:clients [-- NAME…] [--record].
 * Each is installed once, from npm, into the user's cache. Over standard streams and HTTP, with the small and the full list, it
 * must show its model the tools under names that models take, call one, and hand the answer back. With --record, what
 * the programs sent is written to test/clients/recordings, which npm test replays.
 */
const WANTED = { tool: 'search_tools', args: { query: 'create a task' } }
const MARK = 'matchCount'
const RUN_TIMEOUT_MS = 180_000
const cache = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'castellan', 'clients')
const recordings = resolve('test/clients/recordings')

type Case = Readonly<{ program: AgentProgram; transport: 'stdio' | 'http'; tools: 'default' | 'full' }>

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
  const model = await openModelStage(WANTED)
  const http = transport === 'http' ? await startRealServer() : undefined
  const proxy = http && (await recordHttp(messages, `${http.url}?tools=${tools}`))
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
        : { url: proxy.url }
    const { env, args, files } = program.launch({ home, model: model.origin, server })
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(dirname(join(home, path)), { recursive: true })
      writeFileSync(join(home, path), text)
    }
    const printed = await runProgram(bin, args, { ...env, HOME: home, XDG_CONFIG_HOME: join(home, '.config') }, home)
    const faults = faultsOf(model.displayedTools(), model.toolAnswer(), tools)
    if (faults.length > 0) faults.push(`it printed: ${printed.slice(-2_000)}`)
    else if (isRecording) {
      const file = join(recordings, `${program.name}.${transport}.json`)
      mkdirSync(recordings, { recursive: true })
      writeFileSync(file, `${JSON.stringify(readRecording(messages), null, 2)}\n`)
    }
    return faults
  } finally {
    await model.close()
    await proxy?.close()
    await http?.stop()
    rmSync(home, { recursive: true, force: true })
  }
}

function faultsOf(displayed: readonly string[], answer: string | undefined, tools: Case['tools']): string[] {
  const own = displayed.filter((name) => !/^[A-Za-z0-9_-]{1,128}$/.test(name))
  return [
    ...(displayed.length === 0 ? [`its model was not shown ${WANTED.tool}`] : []),
    ...(own.length > 0 ? [`its model was shown names that models refuse: ${own.slice(0, 5).join(', ')}`] : []),
    ...(new Set(displayed).size < displayed.length ? ['its model was shown a name twice'] : []),
    ...(tools === 'full' && displayed.length > 0 && !displayed.some((name) => name.endsWith('fs_read'))
      ? ['its model was not shown fs_read']
      : []),
    ...(answer?.includes(MARK) === true ? [] : ['the answer of the tool did not come back to its model']),
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

const words = process.argv.slice(2)
const names = words.filter((word) => !word.startsWith('--'))
const unknown = names.filter((name) => !agentPrograms.some((program) => program.name === name))
if (unknown.length > 0) throw new Error(`no such client: ${unknown.join(', ')}`)
let failures = 0
for (const program of agentPrograms.filter(({ name }) => names.length === 0 || names.includes(name))) {
  for (const transport of ['stdio', 'http'] as const) {
    for (const tools of ['default', 'full'] as const) {
      const faults = await run({ program, transport, tools }, words.includes('--record') && tools === 'full')
      failures += faults.length === 0 ? 0 : 1
      console.log(`${faults.length === 0 ? 'ok   ' : 'FAIL '} ${program.name} ${program.version} ${transport} ${tools}`)
      for (const fault of faults) console.log(`       ${fault}`)
    }
  }
}
process.exitCode = failures === 0 ? 0 : 1
