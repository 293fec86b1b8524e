import { z } from 'zod'
import { quoted } from '../manifests/findings.ts'
import { loosely, type Notes } from '../manifests/present-spelling.ts'
import type { YamlFields } from '../manifests/read-yaml.ts'
import {
  commandWords,
  filled,
  filledTemplate,
  flag,
  group,
  listOf,
  oneOf,
  rule,
  whole,
} from '../manifests/schema-keywords.ts'
import { outputHandler } from './agent-schemas.ts'
import { commandTime, containerCpu, containerSize, issue, readWords, templates, time } from './schema-words.ts'
import { commonOf, oldStateFields, stateShape } from './state-fields.ts'

export const volumeName = (description: string) =>
  filled(64, description).regex(/^[A-Za-z0-9_][A-Za-z0-9._-]*$/, rule('use letters, digits, ".", "_" and "-"'))

const absolute = rule('must be an absolute path without ".."')
const mount = loosely(
  group(
    {
      name: volumeName('`workspace`, a shared volume, or one whose workspace the blackboard has as NAME_volume_id.'),
      mount_path: filled(4_096, 'Absolute path.')
        .regex(/^\//, absolute)
        .refine((path) => !path.split('/').includes('..'), absolute),
      read_only: flag(false, 'Whether it may only be read.'),
    },
    'A volume and its mount path.',
  ),
  { renamed: { mount_point: 'mount_path', path: 'mount_path', readonly: 'read_only' } },
).transform(({ name, mount_path, read_only }) => ({
  name,
  mountPath: mount_path.replace(/(?<=.)\/+$/, ''),
  readOnly: read_only,
}))
export type VolumeMount = Readonly<z.output<typeof mount>>

const MIB = 2 ** 20

const stepShape = {
  image: filledTemplate(
    512,
    'Name of an image of this installation, or one that workflows.images of the configuration maps to such an image.',
  ),
  command: loosely(commandWords.describe('Program and arguments, each a template; one that is empty is left out.'), {
    read: readWords,
  }),
  env: templates('Variables; values are templates, and no shell reads them.').default({}),
  workdir: filledTemplate(4_096, 'Directory to run in.').optional(),
  volumes: listOf(mount, 200, 'Volumes of the step.').default([]),
  resources: group(
    {
      cpu: containerCpu('Millicores.').optional(),
      memory: containerSize('Memory.').optional(),
      timeout: commandTime('Time limit of the command.').optional(),
    },
    'Limits.',
  ).prefault({}),
  registry_credentials: loosely(
    filled(256, 'secret:NAME of the configuration. It must be set; nothing is pulled.')
      .regex(
        /^\s*(?:(?:vault|secret):)?[A-Za-z0-9._/-]+\s*$/,
        rule('must be secret:NAME, with a name of executions.secrets in the configuration'),
      )
      .optional(),
    {
      read(value, { warn }) {
        if (value !== undefined) warn('must be set, but is not used: images are not pulled here (castellan image)')
        return value
      },
    },
  ),
  image_pull_policy: loosely(
    oneOf(['IfNotPresent', 'Never'], 'With Never, no substitute is used for a missing image: the step fails.').default(
      'IfNotPresent',
    ),
    {
      read(value, { error }) {
        if (value === 'Always') error('cannot be Always, because images are not pulled; use IfNotPresent')
        return value
      },
    },
  ),
  shell: flag(false, 'Run the words as one shell line; write {{shell x}} for a value.'),
}

const stepName = filled(128, 'Name of the step.').refine((name) => name !== '__proto__', rule('cannot be __proto__'))
const oldStepFields = { working_dir: 'workdir', environment: 'env', env_additions: 'env' } as const

function nameStep(fallback: (last: PropertyKey | undefined) => string) {
  return (fields: YamlFields, { path, warn }: Notes): void => {
    if (fields['name'] !== undefined) return
    fields['name'] = fallback(path.at(-1))
    warn(`is absent; ${quoted(fields['name'])} is used`, 'name')
  }
}

const written = loosely(group({ name: stepName, ...stepShape }, 'A command in an image.'), {
  renamed: oldStepFields,
  complete: nameStep((index) => `step-${Number(index) + 1}`),
})

type Restrictions = Readonly<{ readOnlyRoot: boolean; network: 'default' | 'none' | 'bridge' }>

const stepOf = (fields: z.output<typeof written>, restrictions: Restrictions) => ({
  name: fields.name,
  image: fields.image,
  /** Whether a substitute may be used for a missing image. */
  isImageReplaceable: fields.image_pull_policy !== 'Never',
  /** The name of a secret in the configuration, which must be set. `vault:` is the older name of `secret:`. */
  registryCredentials: fields.registry_credentials?.trim().replace(/^(?:vault|secret):/, '') ?? null,
  command: fields.command,
  env: fields.env,
  workdir: fields.workdir ?? null,
  volumes: fields.volumes as readonly VolumeMount[],
  resources: {
    cpuMillis: fields.resources.cpu ?? null,
    memoryMb: fields.resources.memory === undefined ? null : Math.max(16, Math.ceil(fields.resources.memory / MIB)),
    timeoutMs: fields.resources.timeout ?? null,
  },
  /** The words of the command are one line for a shell. */
  shell: fields.shell,
  /** `default` means the workspace's own network. */
  ...restrictions,
})
export type ContainerStep = Readonly<ReturnType<typeof stepOf>>

const userPattern = /^[A-Za-z0-9_.-]{1,64}(?::[A-Za-z0-9_.-]{1,64})?$/

export const containerRunState = loosely(
  group(
    stateShape('ContainerRun', {
      name: stepName.optional(),
      ...stepShape,
      retry: group(
        {
          max_attempts: whole(0, 10, 'Further tries.').default(0),
          backoff: time('Pause between tries.').optional(),
        },
        'What happens after a failure.',
      ).prefault({}),
      read_only_root_filesystem: flag(false, 'Whether only volumes may be written.'),
      run_as_user: loosely(
        z
          .union([z.string().regex(userPattern), z.int()], rule('must be a user, or user:group'))
          .optional()
          .describe('Has no effect; commands have no capability.'),
        { read: readUser },
      ),
      network_mode: oneOf(['none', 'bridge', 'default'], 'default is whatever workspaces have.').default('default'),
      output_handler: outputHandler.optional(),
    }),
    'A command runs in an image.',
  ),
  {
    renamed: {
      ...oldStateFields,
      ...oldStepFields,
      read_only_root: 'read_only_root_filesystem',
      user: 'run_as_user',
    },
    complete: nameStep(String),
  },
).transform(({ retry, output_handler, ...state }) => ({
  kind: 'ContainerRun' as const,
  ...commonOf(state),
  step: stepOf(
    { ...state, name: state.name ?? state.image },
    { readOnlyRoot: state.read_only_root_filesystem, network: state.network_mode },
  ),
  retry: { maxAttempts: retry.max_attempts, backoffMs: retry.backoff ?? 0 },
  outputHandler: output_handler ?? null,
}))

function readUser(value: unknown, { warn }: Notes): unknown {
  if (value !== undefined && userPattern.test(String(value)) && !/^(?:0|root)(?::|$)/.test(String(value))) {
    warn('commands in a workspace have no capabilities and no rights outside it; inside they appear as user 0')
  }
  return value
}

const someSteps = rule('must be a list of 1 to 20 steps')

export const parallelContainerRunState = loosely(
  group(
    stateShape('ParallelContainerRun', {
      steps: z
        .array(
          written.transform((fields) => stepOf(fields, { readOnlyRoot: false, network: 'default' })),
          someSteps,
        )
        .min(1, someSteps)
        .max(20, someSteps)
        .superRefine((steps, context) => {
          const names = new Set<string>()
          for (const { name } of steps) {
            if (names.has(name)) {
              context.addIssue(issue(`two steps are named ${quoted(name)}; give each step a different name`))
            }
            names.add(name)
          }
        }),
      completion: oneOf(['all_succeed', 'any_succeed', 'best_effort'], 'When the state has succeeded.').default(
        'all_succeed',
      ),
    }),
    'Several commands run at once.',
  ),
  { renamed: { ...oldStateFields, containers: 'steps', completion_strategy: 'completion' } },
).transform(({ steps, completion, ...state }) => ({
  kind: 'ParallelContainerRun' as const,
  ...commonOf(state),
  steps,
  completion,
}))
