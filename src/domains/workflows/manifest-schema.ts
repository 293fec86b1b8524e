import { completions, conditionTypes, consensusStrategies, webhookMethods } from './manifest-types.ts'

/**
 * The manifest of a workflow as JSON Schema: what authors and editors check against. It describes the present spelling;
 * the parser also takes older ones, with a warning, and checks what a schema cannot say (targets, templates, graphs).
 */
type Schema = Readonly<Record<string, unknown>>

const text = (description: string, more: Schema = {}): Schema => ({ type: 'string', description, ...more })
const share = (description: string): Schema => ({ type: 'number', minimum: 0, maximum: 1, description })
const duration: Schema = {
  type: ['string', 'number'],
  description: 'A time such as 90s, 15m or 24h; a bare number is seconds.',
}
const texts = (description: string): Schema => ({
  type: 'object',
  additionalProperties: { type: ['string', 'number', 'boolean'] },
  description,
})
const object = (required: readonly string[], properties: Record<string, Schema>, more: Schema = {}): Schema => ({
  type: 'object',
  required,
  properties,
  additionalProperties: false,
  ...more,
})

const transition = object(['target'], {
  condition: {
    enum: conditionTypes,
    default: 'always',
    description: 'The first transition whose condition holds is taken.',
  },
  target: text('Name of the next state.'),
  feedback: text('Template; the next state finds it as {{state.feedback}}.'),
  threshold: share(
    'For score_above (at least), score_below (less than), confidence_above, score_and_confidence_above, consensus, all_approved, any_rejected.',
  ),
  min: share('For score_between.'),
  max: share('For score_between.'),
  agreement: share('For consensus.'),
  value: { type: ['string', 'integer'], description: 'For exit_code and input_equals.' },
  expression: text('For custom: a path, a helper call, or a CEL expression over the blackboard.'),
})

const judge = object(['agent_id'], {
  agent_id: text('Name or id of the judging agent.'),
  input_template: text('Template of what the judge is given.'),
  weight: { type: 'number', exclusiveMinimum: 0, default: 1 },
})

const command: Schema = {
  type: 'array',
  minItems: 1,
  items: { type: 'string' },
  description: 'Program and arguments, each a template; one that is empty is left out.',
}
const sizes: Record<string, Schema> = {
  cpu: { type: ['integer', 'string'], description: 'Millicores.' },
  memory: { type: ['integer', 'string'], description: 'A size such as 512m or 128Mi.' },
  timeout: duration,
}

const handlerProperties: Record<string, Schema> = {
  timeout_seconds: { type: 'number', minimum: 1, description: 'Time that it has, within that of the state.' },
  required: { type: 'boolean', default: false, description: 'Whether the state fails with it.' },
}
const handler = (type: string, required: readonly string[], properties: Record<string, Schema>): Schema =>
  object(['type', ...required], { type: { const: type }, ...properties, ...handlerProperties })

const outputHandler = {
  description: 'What becomes of the output of a state that succeeded. What the handler answers takes its place.',
  oneOf: [
    handler('agent', ['agent_id'], {
      agent_id: text('Agent that turns the output into another.'),
      input_template: text('Template with {{output}} and {{intent}}.'),
    }),
    handler('webhook', ['url'], {
      url: text('Where the output is sent.', { pattern: '^[Hh][Tt][Tt][Pp][Ss]?://', maxLength: 2_048 }),
      method: { enum: webhookMethods, default: 'POST' },
      headers: texts('Headers; a value is a template, or secret:NAME or config:NAME.'),
      body_template: text('Template with {{output}} and {{intent}}; left out: JSON with the output and the state.'),
      retry: { type: 'integer', minimum: 0, maximum: 10, default: 0, description: 'Further tries.' },
    }),
    handler('container', ['image', 'command'], {
      image: text(
        'Name of an image of this installation; for another, workflows.images of the configuration has to name one.',
      ),
      command,
      env: texts('Variables; a value is a template, or secret:NAME or config:NAME.'),
      resources: object([], { ...sizes, disk: { type: ['integer', 'string'], description: 'A size such as 2g.' } }),
    }),
    handler('mcp_tool', ['tool_name'], {
      tool_name: text('Tool to call.'),
      arguments: { type: 'object', description: 'Its arguments; texts in it are templates.' },
    }),
  ],
}

const stepProperties: Record<string, Schema> = {
  name: text('Name of the step.'),
  image: text(
    'Name of an image of this installation; for another, workflows.images of the configuration has to name one.',
  ),
  command,
  env: texts('Variables; values are templates, and no shell reads them.'),
  workdir: text('Directory to run in.'),
  volumes: {
    type: 'array',
    items: object(['name', 'mount_path'], {
      name: text('`workspace`, a shared volume, or one whose workspace the blackboard has as NAME_volume_id.'),
      mount_path: text('Absolute path.', { pattern: '^/' }),
      read_only: { type: 'boolean', default: false },
    }),
  },
  resources: object([], sizes),
  registry_credentials: text('secret:NAME of the configuration. It must be set; nothing is pulled.'),
  image_pull_policy: {
    enum: ['IfNotPresent', 'Never'],
    default: 'IfNotPresent',
    description: 'With Never no other image stands in for one that is not here: the step fails.',
  },
  shell: {
    type: 'boolean',
    default: false,
    description: 'Run the words as one line of a shell; write {{shell x}} for a value.',
  },
}

const commonProperties: Record<string, Schema> = {
  transitions: { type: 'array', items: transition, description: 'In order; an empty list ends the run.' },
  timeout: duration,
  max_state_visits: { type: 'integer', minimum: 1, maximum: 20, default: 5 },
  description: text('For readers.'),
}
const state = (kind: string, required: readonly string[], properties: Record<string, Schema>): Schema =>
  object(['kind', 'transitions', ...required], { kind: { const: kind }, ...commonProperties, ...properties })

const consensus = object(['strategy'], {
  strategy: { enum: consensusStrategies },
  threshold: share('What a vote needs to count as passed.'),
  agreement: share('Confidence that the consensus needs.'),
  n: { type: 'integer', minimum: 1, description: 'For best_of_n.' },
  min_judges_required: { type: 'integer', minimum: 1, default: 1 },
  confidence_weighting: object([], {
    agreement_factor: { ...share('Part of agreement.'), default: 0.7 },
    self_confidence_factor: { ...share('Part of what judges say of themselves.'), default: 0.3 },
  }),
})

const states = [
  state('Agent', ['agent', 'input'], {
    agent: text('Name or id of an agent; may be a template.'),
    input: text('Template of what the agent is given.'),
    intent: text('Template of the wish in plain words.'),
    isolation: { enum: ['inherit', 'firecracker'], description: 'firecracker only for agents that run nothing.' },
    pre_execution_validator: text(
      'Name or id of an agent that judges each tool call before it is made, beside those that the agent names itself.',
    ),
    judges: {
      type: 'array',
      items: judge,
      description: 'The state is done again with their reasons until they are satisfied.',
    },
    max_iterations: { type: 'integer', minimum: 1, maximum: 20, default: 10 },
    output_handler: outputHandler,
  }),
  state('System', ['command'], {
    command: text(
      'Template of a line for the shell in the workspace of the run, or update_blackboard. Write {{shell x}} for a value that must stay one word, or give it through env.',
    ),
    env: texts('Variables, or what update_blackboard writes; values are templates, and no shell reads them.'),
    workdir: text('Directory to run in.'),
  }),
  state('Human', ['prompt'], {
    prompt: text('Template of the question.'),
    default_response: text('The answer when the time runs out.'),
  }),
  state('ParallelAgents', ['agents', 'consensus'], {
    agents: {
      type: 'array',
      minItems: 1,
      maxItems: 20,
      items: object(['agent', 'input'], {
        agent: text('Name or id of an agent.'),
        input: text('Template of what it is given.'),
        weight: { type: 'number', exclusiveMinimum: 0, default: 1 },
        timeout_seconds: { type: 'number', minimum: 1, default: 60 },
        poll_interval_ms: { type: 'number', minimum: 1, description: 'Has no effect: nothing is polled.' },
      }),
    },
    consensus,
    judges_for_parallel: {
      type: 'array',
      items: judge,
      description: 'Judge each answer in place of the answers themselves.',
    },
    output_handler: outputHandler,
  }),
  state('ContainerRun', ['image', 'command'], {
    ...stepProperties,
    retry: object([], { max_attempts: { type: 'integer', minimum: 0, maximum: 10, default: 0 }, backoff: duration }),
    read_only_root_filesystem: { type: 'boolean', default: false },
    run_as_user: { type: ['string', 'integer'] },
    network_mode: { enum: ['none', 'bridge', 'default'] },
    output_handler: outputHandler,
  }),
  state('ParallelContainerRun', ['steps'], {
    steps: { type: 'array', minItems: 1, maxItems: 20, items: object(['name', 'image', 'command'], stepProperties) },
    completion: { enum: completions, default: 'all_succeed' },
  }),
  state('Subworkflow', ['workflow_id', 'mode'], {
    workflow_id: text('Name or id of a workflow.'),
    mode: { enum: ['blocking', 'fire_and_forget'] },
    result_key: text('Where its result is put; needed when blocking, forbidden otherwise.'),
    input: text('Template; JSON if it parses, else {"input": …}.'),
  }),
]

export const workflowManifestSchema: Schema = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  title: 'Workflow manifest, version 1',
  ...object(['apiVersion', 'kind', 'metadata', 'spec'], {
    apiVersion: { const: '100monkeys.ai/v1' },
    kind: { const: 'Workflow' },
    metadata: object(['name'], {
      name: text('1 to 63 of a–z, 0–9 and "-".', { pattern: '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$' }),
      version: text('Semantic version.', { default: '1.0.0' }),
      description: text('What it does; search reads it.'),
      labels: texts('For filters.'),
      annotations: texts('For readers.'),
      tags: { type: 'array', items: { type: 'string' } },
      input_schema: { type: 'object', description: 'JSON Schema of the input of a run.' },
      output_schema: { type: 'object', description: 'JSON Schema whose property types the rendered output gets.' },
      output_template: { type: 'object', description: 'The output of a run; texts in it are templates.' },
    }),
    spec: object(['initial_state', 'states'], {
      initial_state: text('Where a run begins.'),
      states: { type: 'object', minProperties: 1, maxProperties: 100, additionalProperties: { oneOf: states } },
      context: { type: 'object', description: 'Constants on the blackboard.' },
      max_total_transitions: { type: 'integer', minimum: 1, maximum: 100, default: 50 },
      storage: object([], {
        workspace: object([], {
          storage_class: {
            enum: ['ephemeral', 'persistent'],
            default: 'ephemeral',
            description: 'A persistent workspace outlives the run.',
          },
          ttl_hours: {
            type: 'number',
            minimum: 0.001,
            description:
              'The files go after that, also while the run waits for a person; a state that begins later finds none.',
          },
          size_limit_mb: { type: 'integer', minimum: 1 },
          volume_id: text('An existing workspace to work in.'),
          blackboard_key: text('Where the id of the workspace is put.', { default: 'workspace_volume_id' }),
        }),
        shared_volumes: {
          type: 'array',
          items: object(['name'], {
            name: text('Name of the volume.'),
            storage_class: { enum: ['ephemeral', 'persistent'], default: 'ephemeral' },
            size_limit_bytes: { type: 'integer', minimum: 1 },
          }),
        },
      }),
      default_schedule: object(['cron'], {
        cron: text('When the workflow runs by itself, for whoever registered it.'),
        timezone: text('IANA name.', { default: 'UTC' }),
        jitter_seconds: { type: 'integer', minimum: 0, maximum: 86_400, default: 0 },
        enabled: { type: 'boolean', default: false, description: 'Without it this is a suggestion.' },
        overlap: { enum: ['skip', 'queue', 'allow'], default: 'skip' },
        missed: { enum: ['skip', 'once'], default: 'once' },
        input: { type: ['object', 'string'], description: 'Input of the scheduled runs; a text is their intent.' },
      }),
    }),
  }),
}
