import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import { parseArgs } from 'node:util'
import { expect, onTestFinished } from 'vitest'
import { launcher } from './castellan-client.ts'
import { writeCastellanRelay } from './castellan-relay.ts'
import { createTranscript } from './guide.ts'
import { startRealServer } from './real-server.ts'
import { homeEnvironment } from './run-castellan.ts'
import { startServerHere } from './server-here.ts'

/** A fenced block of a document: what comes after the fence, and what is in it. */
export type Block = Readonly<{ language: string; isLong: boolean; body: string }>

/** The blocks of a guide, by its name. */
export const guideBlocks = (name: string): Block[] =>
  blocksOf(readFileSync(new URL(`../../docs/guides/${name}.md`, import.meta.url), 'utf8'))

export const blocksOf = (markdown: string): Block[] =>
  [...markdown.matchAll(/^( *)```(\w*)( long)?\n([\s\S]*?)^\1```$/gm)].map(([, , language, long, body]) => ({
    language: language!,
    isLong: long !== undefined,
    body: body!,
  }))

/** A home, with a running server unless it is not wanted, in which the blocks of a guide are carried out one after the other. */
export async function setReaderStage(
  settings: {
    config?: string
    env?: Record<string, string>
    serve?: boolean
    args?: readonly string[]
    port?: number
    prepare?: readonly string[]
    /** For what only a process reads as it starts: the server and every command are one. */
    processes?: boolean
  } = {},
) {
  const home = mkdtempSync(join(tmpdir(), 'castellan-reader-'))
  const dataDir = join(home, '.local/share/castellan')
  mkdirSync(dataDir, { recursive: true })
  mkdirSync(join(home, 'bin'))
  const relay = settings.processes === true ? undefined : await writeCastellanRelay(join(home, 'bin'))
  if (relay === undefined) symlinkSync(launcher, join(home, 'bin', 'castellan'))
  writeFileSync(join(home, 'bin', 'claude'), `#!/bin/sh\nprintf '%s\\n' "$@" > '${join(home, 'claude.args')}'\n`)
  chmodSync(join(home, 'bin', 'claude'), 0o755)
  mkdirSync(join(home, 'node_modules'))
  symlinkSync(resolve('.'), join(home, 'node_modules', 'castellan'))
  if (settings.config !== undefined) writeFileSync(join(dataDir, 'castellan.yaml'), settings.config)
  const path = `${join(home, 'bin')}:${dirname(process.execPath)}:${process.env['PATH']}`
  const env = homeEnvironment(home, { ...settings.env, PATH: path })
  const transcript = createTranscript()
  let answered = ''

  async function run(command: string): Promise<{ code: number; output: string }> {
    const child = spawn('sh', ['-ec', `exec 2>&1\n${command}`], { cwd: home, env, stdio: ['ignore', 'pipe', 'ignore'] })
    const [output, [code]] = await Promise.all([text(child.stdout), once(child, 'close')])
    return { code: code as number, output }
  }

  const prepared: string[] = []
  for (const command of settings.prepare ?? []) prepared.push((await run(command)).output)
  const serve = settings.serve ?? true
  const start = relay === undefined ? startRealServer : startServerHere
  const server = serve ? await start({ dataDir, env: {}, ...settings }) : undefined
  onTestFinished(async () => {
    await server?.stop()
    await relay?.[Symbol.asyncDispose]()
    rmSync(home, { recursive: true, force: true })
  })
  return {
    home,
    env,
    /** What the commands said that were given before the server started. */
    prepared,
    url: server?.url ?? '',
    run,
    /** The server that the last `claude mcp add` named. The command itself only notes down what it was told. */
    claudeServer: (): ClaudeServer =>
      claudeServerOf(readFileSync(join(home, 'claude.args'), 'utf8').trim().split('\n')),
    /**
     * A script must succeed, and JSON after it is what it answers, but for ids and times; a console shows what each command
     * answers, failures included.
     */
    async follow({ language, body }: Block): Promise<void> {
      if (language === 'json') return expectLike(JSON.parse(body.replaceAll(/,\s*…/g, '')), JSON.parse(answered))
      const file = /^# (\S+\.\w+)\n/.exec(body)?.[1]
      if (file !== undefined) writeFileSync(join(home, file), body)
      if (language === 'sh') {
        const { code, output } = await run(body)
        expect(code, `${body}\n${output}`).toBe(0)
        // Progress comes before it.
        answered = output.slice(Math.max(0, output.search(/^\{/m)))
      }
      if (language !== 'console') return
      for (const part of body.split(/^\$ /m).slice(1)) {
        const [, command, answer] = /^((?:.*\\\n)*.*)\n([\s\S]*)$/.exec(part)!
        const { code, output } = await run(transcript.inThisRun(command!))
        transcript.compare(answer!, output)
        expect(code === 0, `${command}\n${output}`).toBe(!/^(does not verify|error):/.test(answer!))
      }
    },
  }
}

type ClaudeServer = Readonly<{ url?: string; command?: readonly string[]; headers: Readonly<Record<string, string>> }>

/** `mcp add [--transport http] NAME URL [--header LINE]`, or `mcp add NAME -- COMMAND…`. */
function claudeServerOf(args: readonly string[]): ClaudeServer {
  const [flags, command] = args.includes('--')
    ? [args.slice(0, args.indexOf('--')), args.slice(args.indexOf('--') + 1)]
    : [args, []]
  const { values, positionals } = parseArgs({
    args: [...flags],
    options: { transport: { type: 'string' }, header: { type: 'string', multiple: true } },
    allowPositionals: true,
  })
  const [mcp, add, name, url, ...more] = positionals
  expect([mcp, add, typeof name, more]).toEqual(['mcp', 'add', 'string', []])
  expect(values.transport).toBe(url === undefined ? undefined : 'http')
  const headers = Object.fromEntries((values.header ?? []).map((line) => line.split(': ') as [string, string]))
  return url === undefined ? { command, headers } : { url, headers }
}

/** Ids and addresses are those of one run. */
const ID = /[0-9a-f]{8,}|^10\.99\./

/** Everything that a guide shows of an answer is in it; of a list it may show some. */
function expectLike(displayed: unknown, actual: unknown): void {
  if (Array.isArray(displayed)) {
    const isThere = (one: unknown): boolean => (actual as unknown[]).some((other) => isLike(one, other))
    for (const one of displayed) expect(isThere(one), `${JSON.stringify(one)} in ${JSON.stringify(actual)}`).toBe(true)
  } else if (typeof displayed === 'object' && displayed !== null) {
    for (const [name, value] of Object.entries(displayed)) {
      expect(actual, JSON.stringify(actual)).toHaveProperty([name])
      expectLike(value, (actual as Record<string, unknown>)[name])
    }
  } else if (typeof displayed === 'number' || (typeof displayed === 'string' && ID.test(displayed))) {
    expect(typeof actual).toBe(typeof displayed)
  } else expect(actual).toEqual(displayed)
}

function isLike(displayed: unknown, actual: unknown): boolean {
  try {
    expectLike(displayed, actual)
    return true
  } catch {
    return false
  }
}
