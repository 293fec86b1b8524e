/** The documented inputs of the four tools that the stand-in offers, and the tables under them. */
import { z } from 'zod'

const priority = z.enum(['low', 'normal', 'high', 'critical'])
const timestamp = z.iso.datetime()

export const taskCreateInput = {
  title: z.string().min(1).max(256),
  description: z.string().max(8000).default(''),
  project: z.string().min(1),
  parent_id: z.string().optional(),
  priority: priority.default('normal'),
  labels: z.array(z.string()).max(20).default([]),
  assignee: z.string().default('unassigned'),
  estimate_hours: z.number().min(0).max(1000).optional(),
}

export const taskListInput = {
  project: z.string().optional(),
  status: z.array(z.enum(['backlog', 'todo', 'in_progress', 'blocked', 'review', 'done', 'cancelled'])).optional(),
  priority: z.array(priority).optional(),
  assignee: z.string().optional(),
  label: z.string().optional(),
  created_after: timestamp.optional(),
  created_before: timestamp.optional(),
  search: z.string().optional(),
  limit: z.number().int().min(1).max(500).default(50),
  offset: z.number().int().min(0).default(0),
  sort_by: z.enum(['created', 'updated', 'priority', 'progress']).default('updated'),
  sort_order: z.enum(['asc', 'desc']).default('desc'),
}

export const thoughtRecordInput = {
  task_id: z.string(),
  type: z.enum(['reflection', 'decision', 'discovery', 'risk', 'blockers']),
  content: z.string().min(1).max(5000),
  branch: z.string().optional(),
  commit_sha: z.string().optional(),
  tests_run: z.array(z.string()).optional(),
  blockers: z.array(z.string()).optional(),
  metadata: z.record(z.string(), z.unknown()).optional(),
}

export const tables = `
  CREATE TABLE tasks (
    id INTEGER PRIMARY KEY, project TEXT NOT NULL, sequence INTEGER NOT NULL, title TEXT NOT NULL, description TEXT NOT NULL,
    status TEXT NOT NULL, priority TEXT NOT NULL, priority_rank INTEGER NOT NULL, progress INTEGER NOT NULL,
    assignee TEXT NOT NULL, labels TEXT NOT NULL, estimate_hours REAL, parent_id TEXT,
    created_at TEXT NOT NULL, updated_at TEXT NOT NULL, created_by TEXT NOT NULL
  ) STRICT;
  CREATE UNIQUE INDEX tasks_sequence ON tasks (project, sequence);
  CREATE INDEX tasks_updated ON tasks (updated_at);
  CREATE INDEX tasks_project_updated ON tasks (project, updated_at);
  CREATE TABLE thoughts (
    id INTEGER PRIMARY KEY, task_id INTEGER NOT NULL, chain_position INTEGER NOT NULL, type TEXT NOT NULL, content TEXT NOT NULL,
    branch TEXT, commit_sha TEXT, tests_run TEXT, blockers TEXT, metadata TEXT,
    hash TEXT NOT NULL, previous_hash TEXT, recorded_at TEXT NOT NULL, recorded_by TEXT NOT NULL
  ) STRICT;
  CREATE UNIQUE INDEX thoughts_chain ON thoughts (task_id, chain_position);
`
