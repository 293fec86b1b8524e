import { createReadStream, existsSync } from 'node:fs'
import { access, readFile, stat } from 'node:fs/promises'
import { originTenant } from '../../audit/checkpoint.ts'
import type { FsckReport } from '../../audit/fsck/run-fsck.ts'
import { type VerifyResult, verifyDocument } from '../../audit/verify-document.ts'
import { commonFlags, refuseFlags, remoteFlags, stateFlags } from '../../cli/command.ts'
import { exitCodes } from '../../cli/terminal.ts'
import { AppError } from '../../contract/app-error.ts'
import { counted } from '../../kernel/counted.ts'
import { withClient } from './client.ts'
import { type Command, type CommandContext, loadCommandConfig, pathOf, printJson } from './context.ts'
import { type LogPage, logPages } from './log-pages.ts'
import { remoteChoice } from './remote-choice.ts'
import { reportVariables } from './report-variables.ts'

const { key: _, ...otherRemoteFlags } = remoteFlags

const spec = {
  name: 'verify',
  positionals: '[FILE]',
  positionalsMax: 1,
  summary: 'Verify an export, a proof, or the state itself.',
  description:
    'With FILE: verify a log export, an inclusion proof or a consistency proof, without a server or a database, and name the first error. Without FILE: check the whole state against its log. With --url: fetch the log of a server elsewhere and verify it here; --key is then also the verifier key, so pass an API key in CASTELLAN_API_KEY. The exit code is 0 if everything verifies and 5 if not.',
  flags: {
    key: { type: 'string', value: 'KEY', description: 'The verifier key that you trust, or a file that contains it.' },
    tenant: {
      type: 'string',
      value: 'NAME',
      description: 'Require the log of this tenant: one key signs the logs of all tenants.',
    },
    checkpoint: { type: 'string', value: 'FILE', description: 'A checkpoint that you saved: the log must extend it.' },
    ...otherRemoteFlags,
    ...commonFlags,
  },
  examples: ["castellan verify log.jsonl --key 'castellan-…+…+…'", 'castellan verify'],
} as const

export const command: Command = { spec, run }

const KEY = /^[^+\s]+\+[0-9a-f]{8}\+[A-Za-z0-9+/]+=*$/

async function run(context: CommandContext): Promise<number> {
  const file = context.parsed.positionals[0]
  if (file !== undefined) return await verifyFile(context, file)
  const remote = remoteChoice(context)
  return remote === undefined ? await verifyState(context) : await verifyElsewhere(context)
}

async function verifyFile(context: CommandContext, file: string): Promise<number> {
  if (context.parsed.text('url') !== undefined) {
    throw new AppError('ERR_INVALID_INPUT', 'FILE and --url cannot be combined. Leave one of them out.', {
      field: 'url',
    })
  }
  const unused = [...Object.keys(stateFlags), ...Object.keys(otherRemoteFlags)]
  refuseFlags(spec, context.parsed, unused, 'on the verification of a FILE, which needs no state and no server')
  await requireReadable(context, file)
  return await verifyLog(context, await readKey(context), readable(context, file))
}

/** The log of a remote server is verified here: its own statements are not trusted. */
async function verifyElsewhere(context: CommandContext): Promise<number> {
  const key = await readKey(context)
  return await withClient(context, (client) => verifyLog(context, key, bytesOf(logPages(client))))
}

async function* bytesOf(pages: AsyncIterable<LogPage>): AsyncGenerator<Uint8Array> {
  for await (const { text } of pages) yield Buffer.from(text)
}

async function verifyLog(context: CommandContext, key: string, chunks: AsyncIterable<Uint8Array>): Promise<number> {
  const retained = context.parsed.text('checkpoint')
  const verified = await verifyDocument({
    chunks,
    key,
    ...(retained === undefined ? {} : { knownCheckpoint: await readNote(context, retained) }),
    onProgress: ({ records, size }) => context.terminal.progress(`${records} of ${size} entries`),
  })
  context.terminal.progressDone()
  const result = requireTenant(verified, context.parsed.text('tenant'))
  if (context.json) printJson(context, result)
  else context.terminal.out(describe(context, result))
  return result.ok ? 0 : exitCodes.conflict
}

/** A document of another tenant is genuine, but not the requested one. */
function requireTenant(result: VerifyResult, tenant: string | undefined): VerifyResult {
  if (!result.ok || tenant === undefined) return result
  const actual = originTenant(result.origin)
  if (actual === tenant) return result
  const message = `This is the log of tenant '${actual}', not of '${tenant}'.`
  return { ok: false, problem: { rule: 'tenant', message, field: 'origin', expected: tenant, actual } }
}

function unreadable(file: string, field: string, cause: unknown): AppError {
  const { code, message } = cause as NodeJS.ErrnoException
  const known: Readonly<Record<string, string>> = {
    ENOENT: 'there is no such file.',
    EISDIR: 'it is a folder. Name the file that castellan export wrote.',
    EACCES: 'you may not read it.',
  }
  const reason = known[code ?? ''] ?? message
  return new AppError('ERR_NOT_FOUND', `Cannot read ${file}: ${reason}`, { field }, { cause })
}

async function requireReadable(context: CommandContext, file: string): Promise<void> {
  const path = pathOf(context, file)
  try {
    await access(path)
    if ((await stat(path)).isDirectory()) throw Object.assign(new Error('a folder'), { code: 'EISDIR' })
  } catch (cause) {
    throw unreadable(file, 'FILE', cause)
  }
}

async function* readable(context: CommandContext, file: string): AsyncGenerator<Uint8Array> {
  try {
    yield* createReadStream(pathOf(context, file), { highWaterMark: 1 << 20 })
  } catch (cause) {
    throw unreadable(file, 'FILE', cause)
  }
}

async function readText(context: CommandContext, file: string, field: string): Promise<string> {
  try {
    return await readFile(pathOf(context, file), 'utf8')
  } catch (cause) {
    throw unreadable(file, field, cause)
  }
}

/** A note ends with one line feed; editors and shells add more, or take it away. */
async function readNote(context: CommandContext, file: string): Promise<string> {
  return (await readText(context, file, '--checkpoint')).replace(/\n*$/, '\n')
}

/** A key is `name+hash+base64`; anything else names a file. */
async function readKey(context: CommandContext): Promise<string> {
  const input = context.parsed.text('key')
  if (input === undefined) {
    throw new AppError(
      'ERR_INVALID_INPUT',
      '--key is missing. Pass the verifier key that the owner of the log gave you (the `key` of log_checkpoint).',
      { field: 'key' },
    )
  }
  const isThere = existsSync(pathOf(context, input))
  if (!input.includes('+') && !isThere) {
    throw new AppError(
      'ERR_NOT_FOUND',
      `--key: '${input}' is neither a verifier key (name+hash+base64, the \`key\` of log_checkpoint) nor an existing file.`,
      { field: 'key' },
    )
  }
  const isFile = !KEY.test(input.trim()) && (isThere || !input.includes('+'))
  return (isFile ? await readText(context, input, '--key') : input).trim()
}

function describe(context: CommandContext, result: VerifyResult): string {
  const { terminal } = context
  if (!result.ok) {
    const { problem } = result
    const where = [
      problem.line === undefined ? undefined : `line ${problem.line}`,
      problem.seq === undefined ? undefined : `entry ${problem.seq}`,
      problem.field,
    ].filter((part) => part !== undefined)
    const location = where.length === 0 ? '' : ` (${where.join(', ')})`
    return `${terminal.style('bad', 'does not verify')}: ${problem.message}${location} [${problem.rule}]\n`
  }
  const good = terminal.style('good', 'verified')
  switch (result.kind) {
    case 'export':
      return `${good}: ${counted(result.records, 'entry', 'entries')} of ${result.origin}, ${counted(result.thoughts, 'thought')}, root ${result.root}\n${result.warnings.map((warning) => `warning: ${warning.message}\n`).join('')}`
    case 'inclusion':
      return `${good}: entry ${result.index} is in ${result.origin} of size ${result.size}, root ${result.root}\n`
    case 'consistency':
      return `${good}: ${result.origin} of size ${result.size} extends its size ${result.oldSize}\n`
  }
}

async function verifyState(context: CommandContext): Promise<number> {
  const unused = ['key', 'tenant', 'checkpoint']
  refuseFlags(spec, context.parsed, unused, 'on the check of the whole state; it is for a FILE or --url')
  await reportVariables(context)
  const { config } = await loadCommandConfig(context)
  const { adviceFor, checkState } = await import('../check-state.ts')
  const report = await checkState(config, {
    onProgress: ({ tenant, entries }) =>
      context.terminal.progress(`${tenant}: ${counted(entries, 'entry', 'entries')}`),
  })
  context.terminal.progressDone()
  if (context.json) printJson(context, report)
  else {
    const { terminal } = context
    for (const finding of report.findings) {
      terminal.out(
        `${finding.tenant === '' ? '' : `${finding.tenant} `}${finding.table} ${finding.row}: ${finding.message} [${finding.rule}]\n`,
      )
    }
    for (const log of report.unprotected) terminal.out(`not protected: ${adviceFor(log)}\n`)
    const entries = report.tenants.reduce((sum, tenant) => sum + tenant.entries, 0)
    const verdict = report.ok ? terminal.style('good', 'sound') : terminal.style('bad', verdictOf(report))
    const what = `${counted(report.tenants.length, 'tenant')}, ${counted(entries, 'log entry', 'log entries')}`
    terminal.out(`${what}: ${verdict}\n`)
  }
  return report.ok ? 0 : exitCodes.conflict
}

function verdictOf({ findingCount, unprotected }: FsckReport): string {
  if (findingCount > 0) return counted(findingCount, 'finding')
  return `${counted(unprotected.length, 'log')} not protected; nothing else wrong was found`
}
