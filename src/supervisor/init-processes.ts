import { type EnteredCommand, startPerlProcess } from './perl-process.ts'

/** Ids of a workspace's user namespace, in the words of `/proc/PID/uid_map`. */
export type IdMaps = Readonly<{ uids: string; gids: string }>
/** What a workspace's root file system is made of, as the first process of the workspace sees the host. */
export type HoldOrder = Readonly<{
  hostname: string
  /** Where its root file system is mounted. */
  root: string
  /** Read-only parts of the host's own file system. */
  binds: readonly Readonly<{ source: string; target: string }>[]
  /** Folders below `source`, without a link on the way. */
  mounts: readonly Readonly<{ source: string; beneath: string; target: string; readOnly: boolean }>[]
  /** Files that lie over others, read-only. */
  files: readonly Readonly<{ source: string; target: string }>[]
}>

/** The first processes of workspaces; init-processes.pl makes them. */
export type InitProcesses = Readonly<{
  /** One that joins the control groups, has its namespaces and waits there for what `hold` gives it. */
  prewarm(cgroups: readonly string[], ids: IdMaps): Promise<number>
  /** Ends it, if it still waits. */
  discard(pid: number): Promise<void>
  /** Makes it the first process of a workspace. Resolves when the workspace can be entered. */
  hold(pid: number, order: HoldOrder): Promise<EnteredCommand>
  /** Settles when nobody can make them any more. */
  exited: Promise<void>
}>

type InitProcessesOptions = Readonly<{
  seccompFilter: string
  /** An empty folder that everybody may reach. */
  stage: string
  /** What is put where SEARCH_PROGRAM says, if there is one. */
  searchProgram: string | undefined
  sharedMemoryBytes: number
}>

export function startInitProcesses(options: InitProcessesOptions): InitProcesses {
  const { seccompFilter, stage, searchProgram, sharedMemoryBytes } = options
  const perl = startPerlProcess('./init-processes.pl', [
    seccompFilter,
    stage,
    searchProgram ?? '',
    String(sharedMemoryBytes),
  ])
  return {
    prewarm: (cgroups, { uids, gids }) => perl.number('seat', cgroups.join('\n'), uids, gids),
    discard: (pid) => perl.done('leave', String(pid)),
    hold: (pid, { hostname, root, binds, mounts, files }) =>
      perl.process(
        'hold',
        String(pid),
        hostname,
        root,
        String(binds.length + mounts.length),
        ...binds.flatMap(({ source, target }) => [source, '', target, 'ro']),
        ...mounts.flatMap((mount) => [mount.source, mount.beneath, mount.target, mount.readOnly ? 'ro' : 'rw']),
        ...files.flatMap(({ source, target }) => [source, target]),
      ),
    exited: perl.exited,
  }
}
