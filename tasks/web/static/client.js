// Requests to the service, and what every task does with them: progress, cancel, copy, errors.

import { say } from "./strings.js";

export const $ = id => document.getElementById(id);

// Makes an element; children are elements or texts.
export function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

export class ServiceError extends Error {}

export async function request(path, body, signal) {
  const headers = { "Content-Type": "application/json" };
  const key = sessionStorage.getItem("key");
  if (key) headers.Authorization = `Bearer ${key}`;
  let response;
  try {
    response = await fetch(`/v1/${path}`, body ? { method: "POST", headers, body: JSON.stringify(body), signal } : { headers, signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    $("gone").textContent = say("gone");
    $("gone").hidden = false;
    throw new ServiceError("");
  }
  $("gone").hidden = true;
  if (response.ok) return response.json();
  if (response.status === 401) $("key-form").hidden = false;
  const wait = response.headers.get("Retry-After");
  const answer = await response.json().catch(() => ({}));
  throw new ServiceError(wait ? say("busy", wait) : answer.error ?? response.statusText);
}

// One tab: its form, and one request at a time that can be canceled.
export class Task {
  constructor(name, field, run) {
    Object.assign(this, { name, field, run, panel: $(name), fields: {}, result: "" });
    const part = selector => this.panel.querySelector(selector);
    Object.assign(this, { go: part(".go"), stop: part(".cancel"), copy: part(".copy"), link: part(".link"), progress: part("progress"), status: part(".status") });
    part("form").onsubmit = event => { event.preventDefault(); this.start(); };
    part("form").onkeydown = event => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); this.start(); }
      if (event.key === "Escape") this.cancel();
    };
    this.stop.onclick = () => this.cancel();
    this.copy.onclick = () => this.write(this.result);
    this.link.onclick = () => this.write(location.href);
  }

  get text() { return $(this.field).value; }

  // Runs the task; a new start takes the place of the one before. Without words when one is typing.
  async start({ quietly = false } = {}) {
    this.controller?.abort();
    if (!this.text.trim()) {
      this.show("");
      if (!quietly) this.say(say("empty"));
      return;
    }
    const controller = this.controller = new AbortController();
    this.say(say("working"));
    this.busy(true);
    try {
      await this.run(this.text, controller.signal);
      this.say(say("done"));
      this.remember();
    } catch (error) {
      if (!controller.signal.aborted) this.say(error.message, !(error instanceof ServiceError));
      if (!(error instanceof ServiceError) && error.name !== "AbortError") throw error;
    } finally {
      if (this.controller === controller) this.busy(false);
    }
  }

  cancel() {
    if (this.stop.hidden) return;
    this.controller.abort();
    this.busy(false);
    this.say(say("canceled"));
  }

  // Sets the text that "copy" copies; without one the buttons are hidden.
  show(result) {
    this.result = result;
    this.copy.hidden = this.link.hidden = !result;
  }

  say(message) { this.status.textContent = message; }

  busy(is) {
    this.stop.hidden = this.progress.hidden = !is;
    this.panel.setAttribute("aria-busy", is);
  }

  async write(text) {
    await navigator.clipboard.writeText(text).catch(() => {
      // Without https, browsers have no clipboard but this one.
      const area = make("textarea", { value: text });
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    });
    this.say(say("copied"));
  }

  // Puts the state into the address: a link to this result.
  remember() {
    const state = new URLSearchParams({ ...this.fields, text: this.text });
    history.replaceState(null, "", `#${this.name}?${state}`);
  }
}
