import { type EnteredCommand, startPerlProcess } from './perl-process.ts'

/** A command to run in a workspace's namespaces. Paths are those of the supervisor. */
export type EnterRequest = Readonly<{
  /** Any process in the workspace's namespaces. */
  namespacePid: number
  stdin: string
  stdout: string
  stderr: string
  workdir: string
  /** The capabilities to retain, as a bit mask. */
  capabilities: bigint
  processesMax: number
  filesMax: number
  seccompFilter: string
  /** The `cgroup.procs` files to join. */
  cgroups: readonly string[]
  /** The initial CPU affinity; an empty list means every CPU. */
  processors: readonly number[]
  argv: readonly string[]
  env: Readonly<Record<string, string>>
}>

export type Launcher = Readonly<{
  mount(type: string, target: string, flags: number, data: string): Promise<void>
  unmount(target: string): Promise<void>
  makeFifos(paths: readonly string[]): Promise<void>
  /** Creates a btrfs subvolume with a limit of `bytesMax`, in the quota group `group`. */
  makeSubvolume(path: string, bytesMax: number, group: number): Promise<void>
  copySubvolume(source: string, path: string, group: number): Promise<void>
  removeSubvolume(path: string): Promise<void>
  /** Copies the folder `source` to `target/upper`. `stage` is any empty folder. */
  copyTree(source: string, target: string, stage: string): Promise<void>
  enter(request: EnterRequest): Promise<EnteredCommand>
  /** Settles when the launcher has exited. The supervisor then exits too: no command can start without it. */
  exited: Promise<void>
}>

/** `enterSeconds` bounds how long entering a workspace may take, because a workspace could block it for ever. */
export function startLauncher({ enterSeconds }: Readonly<{ enterSeconds: number }>): Launcher {
  const perl = startPerlProcess('./launcher.pl', [String(enterSeconds)])
  return {
    mount: (type, target, flags, data) => perl.done('mount', type, target, String(flags), data),
    unmount: (target) => perl.done('umount', target),
    makeFifos: (paths) => perl.done('fifo', ...paths),
    makeSubvolume: (path, bytesMax, group) => perl.done('subvolume', path, String(bytesMax), String(group)),
    copySubvolume: (source, path, group) => perl.done('subcopy', path, source, String(group)),
    removeSubvolume: (path) => perl.done('subdelete', path),
    copyTree: (source, target, stage) => perl.done('copy', source, target, stage),
    enter: (request) =>
      perl.process(
        'enter',
        String(request.namespacePid),
        request.stdin,
        request.stdout,
        request.stderr,
        request.workdir,
        request.capabilities.toString(16),
        String(request.processesMax),
        String(request.filesMax),
        request.seccompFilter,
        request.cgroups.join('\n'),
        request.processors.join(','),
        String(request.argv.length),
        ...request.argv,
        ...Object.entries(request.env).map(([name, value]) => `${name}=${value}`),
      ),
    exited: perl.exited,
  }
}
