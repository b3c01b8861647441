//! What a call of such a value does.

use oxc_ast::AstKind;
use oxc_ast::ast::{Argument, ArrayExpression, Expression};
use oxc_semantic::NodeId;
use oxc_span::GetSpan as _;

use super::{Kind, Trace};
use crate::api::Api;
use crate::finding::Spot;
use crate::text::Text;

/// How a function is called by a method of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Applied {
    Call,
    Apply,
    Bind,
}

impl Applied {
    pub(super) fn of(name: &str) -> Option<Self> {
        match name {
            "call" => Some(Self::Call),
            "apply" => Some(Self::Apply),
            "bind" => Some(Self::Bind),
            _ => None,
        }
    }
}

impl Trace<'_, '_> {
    /// Handles a call of it, or an object that is made of it with `new`.
    pub(super) fn call(&mut self, kind: Kind, call: NodeId, arguments: &[Argument<'_>]) {
        let offset = self.semantic.nodes().kind(call).span().start;
        match kind {
            Kind::Loads => match arguments.first() {
                Some(Argument::SpreadElement(_)) => self.unknown_load(offset),
                Some(argument) => {
                    if let Some(name) = argument.as_expression() {
                        self.load(name, "require");
                        self.follow_module(call, name);
                    }
                }
                None => {}
            },
            Kind::MakesRequire => self.follow(call, Kind::Loads),
            Kind::Binds => self.bound_to(arguments.first(), offset),
            Kind::Eval | Kind::TakesCode => self.take_code(arguments.first(), offset),
            Kind::MakesFunction => self.take_code(arguments.last(), offset),
            Kind::Modules => self.follow(call, Kind::Module),
            Kind::Process | Kind::Global | Kind::Module | Kind::Vm | Kind::Redirects => {}
        }
    }

    /// Handles a method of a function's own that is taken: the value of this node.
    pub(super) fn applied(&mut self, kind: Kind, method: NodeId, how: Applied) {
        let nodes = self.semantic.nodes();
        let (parent, span) = (nodes.parent_id(method), nodes.kind(method).span());
        let AstKind::CallExpression(call) = nodes.kind(parent) else {
            return self.handed_on(kind, span);
        };
        if call.callee.span() != span {
            return self.handed_on(kind, span);
        }
        let given = call.arguments.get(1..).unwrap_or_default();
        match how {
            Applied::Call => self.call(kind, parent, given),
            Applied::Bind if given.is_empty() => self.follow(parent, kind),
            Applied::Bind => self.call(kind, parent, given),
            Applied::Apply => {
                let list = given.first().and_then(Argument::as_expression);
                match (kind, list.map(Expression::get_inner_expression)) {
                    (Kind::MakesRequire, _) => self.follow(parent, Kind::Loads),
                    (_, Some(Expression::ArrayExpression(list))) => {
                        self.apply_list(kind, parent, list);
                    }
                    _ => self.unknown_load(span.start),
                }
            }
        }
    }

    /// Handles a call with a list that is written out.
    fn apply_list(&mut self, kind: Kind, call: NodeId, list: &ArrayExpression<'_>) {
        let offset = list.span.start;
        let place =
            if kind == Kind::MakesFunction { list.elements.last() } else { list.elements.first() };
        match (place.and_then(|place| place.as_expression()), kind) {
            (Some(name), Kind::Loads) => {
                self.load(name, "require");
                self.follow_module(call, name);
            }
            (Some(name), Kind::Binds) => self.bind_value(name, offset),
            (Some(code), _) => self.take_value(code, offset),
            (None, _) => self.unknown_load(offset),
        }
    }

    fn unknown_load(&mut self, offset: u32) {
        let what = "a call whose arguments are only known at run time";
        self.findings.spots.push(Spot::unclear(offset, what));
    }

    fn bound_to(&mut self, name: Option<&Argument<'_>>, offset: u32) {
        match name.map(Argument::as_expression) {
            Some(Some(name)) => self.bind_value(name, offset),
            Some(None) => self.unknown_load(offset),
            None => {}
        }
    }

    fn bind_value(&mut self, name: &Expression<'_>, offset: u32) {
        for value in self.values(name) {
            match value {
                Text::Whole(name) => {
                    if let Some(api) = Api::of_binding(&name) {
                        self.findings.spots.push(Spot::api(offset, api, "process.binding"));
                    }
                }
                Text::Begins(_) => {
                    let what = "process.binding of what is only known at run time";
                    self.findings.spots.push(Spot::unclear(offset, what));
                }
            }
        }
    }

    /// Reads code in a string like a file. What is made at run time cannot be read.
    pub(super) fn take_code(&mut self, code: Option<&Argument<'_>>, offset: u32) {
        match code.map(Argument::as_expression) {
            Some(Some(code)) => self.take_value(code, offset),
            Some(None) => self.unknown_load(offset),
            None => {}
        }
    }

    fn take_value(&mut self, code: &Expression<'_>, offset: u32) {
        for value in self.values(code) {
            match value {
                Text::Whole(code) => self.findings.code.push((offset, code)),
                Text::Begins(_) => {
                    let what = "code that is made at run time";
                    self.findings.spots.push(Spot::unclear(offset, what));
                }
            }
        }
    }
}
