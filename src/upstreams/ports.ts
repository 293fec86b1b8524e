import type { Readable, Writable } from 'node:stream'
import type { TenantId } from '../contract/principal.ts'
import type { LocalSpec } from '../domains/mcp-servers/runtime.ts'

/** A command that runs until it ends by itself or the signal is aborted; then nothing of it is left. */
export type CommandRequest = Readonly<{
  argv: readonly string[]
  env: Readonly<Record<string, string>>
  /** Ends it after this time; 0 never. */
  timeoutMs: number
  signal: AbortSignal
  onOutput(stream: 'stdout' | 'stderr', chunk: Uint8Array): void
  /** Called once, when it runs, with its standard input and output themselves; `onOutput` sees its errors alone then. */
  onPipes?(pipes: Readonly<{ stdin: Writable; stdout: Readable }>): void
}>
/** Null when a signal ended it. */
export type CommandEnd = Readonly<{ exitCode: number | null }>

/** Where a local server runs. */
export type ServerWorkspace = Readonly<{
  run(request: CommandRequest): Promise<CommandEnd>
  writeFile(path: string, content: string): Promise<void>
  /** An address on this machine that leads to the port inside. */
  forward(port: number): Promise<string>
  /** Ends everything in it; its files stay. */
  release(): Promise<void>
}>

export type ServerWorkspaces = Readonly<{
  /** Makes it, or starts the one that is there. */
  open(
    at: Readonly<{ tenant: TenantId; deploymentId: string }>,
    spec: LocalSpec,
    signal: AbortSignal,
  ): Promise<ServerWorkspace>
  /** With everything in it; nothing happens where there is none. */
  remove(tenant: TenantId, deploymentId: string): Promise<void>
}>

/** What servers said and what became of them; the oldest lines make room for new ones. */
export type ServerLog = Readonly<{
  append(tenant: TenantId, deploymentId: string, line: string): void
  read(tenant: TenantId, deploymentId: string, lines: number): Promise<readonly string[]>
  remove(tenant: TenantId, deploymentId: string): Promise<void>
  close(): Promise<void>
}>
