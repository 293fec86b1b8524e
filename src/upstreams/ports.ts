import type { Readable, Writable } from 'node:stream'
import type { TenantId } from '../contract/principal.ts'
import type { LocalSpec } from '../domains/mcp-servers/runtime.ts'

/** A command that runs until it ends by itself or the signal is aborted. Then all its processes have ended. */
export type CommandRequest = Readonly<{
  argv: readonly string[]
  env: Readonly<Record<string, string>>
  /** The command is ended after this time; 0 means never. */
  timeoutMs: number
  signal: AbortSignal
  onOutput(stream: 'stdout' | 'stderr', chunk: Uint8Array): void
  /** Called once, when the command runs, with its standard input and output. `onOutput` then gets only its standard error. */
  onPipes?(pipes: Readonly<{ stdin: Writable; stdout: Readable }>): void
}>
/** Null if a signal ended the command. */
export type CommandEnd = Readonly<{ exitCode: number | null }>

/** Where a local server runs. */
export type ServerWorkspace = Readonly<{
  run(request: CommandRequest): Promise<CommandEnd>
  writeFile(path: string, content: string): Promise<void>
  /** An address on this machine that is forwarded to the port inside. */
  forward(port: number): Promise<string>
  /** Ends all its processes. Its files stay. */
  release(): Promise<void>
}>

export type ServerWorkspaces = Readonly<{
  /** Creates the workspace, or starts the existing one. */
  open(
    at: Readonly<{ tenant: TenantId; deploymentId: string }>,
    spec: LocalSpec,
    signal: AbortSignal,
  ): Promise<ServerWorkspace>
  /** Removes the workspace with its files. Does nothing if there is none. */
  remove(tenant: TenantId, deploymentId: string): Promise<void>
}>

/** The output and the events of servers. The oldest lines are dropped. */
export type ServerLog = Readonly<{
  append(tenant: TenantId, deploymentId: string, line: string): void
  read(tenant: TenantId, deploymentId: string, lines: number): Promise<readonly string[]>
  remove(tenant: TenantId, deploymentId: string): Promise<void>
  close(): Promise<void>
}>
