/** A workflow with six kinds of state, as a user would write it. */
export const releaseNotes = `
apiVersion: 100monkeys.ai/v1
kind: Workflow
metadata:
  name: release-notes
  version: "1.2.0"
  description: Drafts notes of a release, checks them in a container, asks a person and publishes.
  labels: { team: docs }
  input_schema:
    type: object
    required: [commits]
    properties:
      commits: { type: string }
      channel: { type: string, enum: [beta, stable] }
  output_schema:
    type: object
    properties:
      notes: { type: string }
      score: { type: number }
  output_template:
    notes: "{{{DRAFT.output}}}"
    score: "{{REVIEW.consensus.score}}"
spec:
  initial_state: SEED
  max_total_transitions: 30
  context: { channel: stable }
  storage:
    workspace: { storage_class: ephemeral, ttl_hours: 2, size_limit_mb: 256 }
    shared_volumes:
      - { name: workspace, storage_class: ephemeral }
  states:
    SEED:
      kind: System
      command: update_blackboard
      env:
        channel: "{{default input.channel workflow.context.channel}}"
      transitions:
        - { condition: always, target: DRAFT }
    DRAFT:
      kind: Agent
      agent: notes-writer
      max_state_visits: 3
      input: |
        Channel: {{blackboard.channel}}
        {{#if blackboard.GATE}}The reviewer said: {{{blackboard.GATE.response}}}{{/if}}
        {{{input.commits}}}
      timeout: 15m
      transitions:
        - { condition: on_success, target: CHECK }
        - { condition: on_failure, target: GIVE_UP }
    CHECK:
      kind: ContainerRun
      name: notes-check
      image: "docker.io/library/alpine:3.20"
      command: ["sh", "-c", "test -s /workspace/NOTES.md"]
      workdir: /workspace
      volumes:
        - { name: workspace, mount_path: /workspace, read_only: true }
      resources: { cpu: 250, memory: "128Mi", timeout: "30s" }
      network_mode: none
      read_only_root_filesystem: true
      run_as_user: "65534:65534"
      transitions:
        - { condition: exit_code_zero, target: REVIEW }
        - { condition: exit_code_non_zero, target: DRAFT, feedback: "{{{CHECK.output.stderr}}}" }
    REVIEW:
      kind: ParallelAgents
      agents:
        - { agent: notes-judge, input: "How true: {{{DRAFT.output}}}", weight: 2.0, timeout_seconds: 90 }
        - { agent: notes-judge, input: "How readable: {{{DRAFT.output}}}", weight: 1.0, timeout_seconds: 90 }
      consensus: { strategy: weighted_average, threshold: 0.8, min_judges_required: 2 }
      transitions:
        - { condition: score_above, threshold: 0.8, target: GATE }
        - { condition: score_below, threshold: 0.8, target: DRAFT }
        - { condition: on_failure, target: GIVE_UP }
    GATE:
      kind: Human
      prompt: "Publish {{DRAFT.output}}? Answer yes, no, or what to change."
      default_response: "no"
      timeout: 24h
      transitions:
        - { condition: input_equals_yes, target: PUBLISH }
        - { condition: input_equals_no, target: GIVE_UP }
        - { condition: always, target: DRAFT }
    PUBLISH:
      kind: Subworkflow
      workflow_id: publish-page
      mode: blocking
      result_key: publish_result
      input: '{"body": {{{json DRAFT.output}}}}'
      transitions: []
    GIVE_UP:
      kind: System
      command: "echo stopped"
      transitions: []
`
